//! Draws one digit: distorted strokes of a pen on a noisy 28x28 grid.
//!
//! The same bits come out on every platform: the arithmetic is `+ - * /` and square roots, which IEEE 754
//! defines exactly, sines come from `libm`, and uniform numbers are made from the integers of the stream.

use fedsi_random::ChaCha8Rng;
use rand::Rng as _;

use super::glyphs::{self, Point};

/// Pixels along a side.
pub(super) const SIDE: usize = 28;
/// Pixels of an image.
pub(super) const PIXELS: usize = SIDE * SIDE;

/// Straight pieces a curve between two points of a stroke is drawn with.
const PIECES: usize = 4;

/// How strongly a digit is distorted. Tuned so that a small network trained on one client's 100 images errs
/// on about one test image in seven, and on one in twenty with ten times as many.
mod distortion {
    /// Largest rotation, in radians.
    pub(super) const ROTATION: f32 = 0.35;
    /// Largest shear of x by y.
    pub(super) const SHEAR: f32 = 0.4;
    /// Height of the writing box in pixels: smallest, and how much is added at most.
    pub(super) const HEIGHT: (f32, f32) = (16.5, 5.5);
    /// Width of the writing box as a share of its height.
    pub(super) const WIDTH: (f32, f32) = (0.6, 0.35);
    /// Largest shift from the centre, in pixels.
    pub(super) const SHIFT: f32 = 1.7;
    /// Largest bend of the whole digit, as a share of the box.
    pub(super) const BEND: f32 = 0.22;
    /// Standard deviation of a stroke point's jitter, as a share of the box.
    pub(super) const JITTER: f32 = 0.04;
    /// Half the thickness of the pen in pixels.
    pub(super) const RADIUS: (f32, f32) = (0.75, 0.9);
    /// Share of images with a stray stroke, and with an erased patch.
    pub(super) const STRAY: f32 = 0.15;
    pub(super) const ERASED: f32 = 0.12;
    /// Standard deviation of the noise of a pixel, of 255: smallest, and how much is added at most.
    pub(super) const NOISE: (f32, f32) = (4.0, 20.0);
}

/// Uniform and nearly normal numbers, the same on every platform.
struct Draws(ChaCha8Rng);

impl Draws {
    /// Uniform in [0, 1), a multiple of 2^-24.
    fn unit(&mut self) -> f32 {
        (self.0.next_u32() >> 8) as f32 * (1.0 / 16_777_216.0)
    }

    fn between(&mut self, (low, span): (f32, f32)) -> f32 {
        low + span * self.unit()
    }

    /// Uniform in [-1, 1).
    fn signed(&mut self) -> f32 {
        2.0 * self.unit() - 1.0
    }

    /// Mean 0, standard deviation 1: the four bytes of a word added up are as good as normal here.
    fn normal(&mut self) -> f32 {
        // Each byte has variance (256^2 - 1) / 12, and four of them 21845.
        const SCALE: f32 = 1.0 / 147.801_55;
        let sum: u32 = self.0.next_u32().to_le_bytes().into_iter().map(u32::from).sum();
        (sum as f32 - 510.0) * SCALE
    }
}

/// Where a point of the writing box lands on the grid.
struct Placement {
    columns: [Point; 2],
    centre: Point,
    bend: [f32; 3],
}

impl Placement {
    fn draw(draws: &mut Draws) -> Self {
        use distortion as d;
        // Two draws added: moderate angles are usual, large ones rare.
        let angle = d::ROTATION * 0.5 * (draws.signed() + draws.signed());
        let (sin, cos) = (libm::sinf(angle), libm::cosf(angle));
        let shear = d::SHEAR * 0.5 * (draws.signed() + draws.signed());
        let height = draws.between(d::HEIGHT);
        let width = height * draws.between(d::WIDTH);
        let columns = [
            [width * cos, width * sin],
            [-height * sin - height * shear * cos, height * cos - height * shear * sin],
        ];
        let middle = SIDE as f32 / 2.0;
        let centre = [middle + d::SHIFT * draws.signed(), middle + d::SHIFT * draws.signed()];
        let bend = [d::BEND * draws.signed(), d::BEND * draws.signed(), d::BEND * draws.signed()];
        Self { columns, centre, bend }
    }

    fn place(&self, point: Point) -> Point {
        let (x, y) = (point[0] - 0.5, point[1] - 0.5);
        let [a, b, c] = self.bend;
        // A smooth, low-order bend of the plane, zero at the centre.
        let u = x + a * (y * y - 0.1) * 2.0 + c * x * y;
        let v = y + b * x * x + c * y * x;
        let [along, down] = self.columns;
        [self.centre[0] + along[0] * u + down[0] * v, self.centre[1] + along[1] * u + down[1] * v]
    }
}

/// Squared distance of every pixel to the nearest stroke, kept only near the strokes.
struct Ink {
    nearest: [f32; PIXELS],
    reach: f32,
}

impl Ink {
    fn new(radius: f32) -> Self {
        // Half a pixel more than the pen is where its soft edge ends.
        Self { nearest: [f32::MAX; PIXELS], reach: radius + 0.5 }
    }

    /// Draws a straight piece; touches only the pixels of its bounding box.
    fn line(&mut self, from: Point, to: Point) {
        let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
        let squared = dx * dx + dy * dy;
        let inverse = if squared > 1e-9 { 1.0 / squared } else { 0.0 };
        let columns = span(from[0], to[0], self.reach);
        for row in span(from[1], to[1], self.reach) {
            let y = row as f32 + 0.5 - from[1];
            for column in columns.clone() {
                let x = column as f32 + 0.5 - from[0];
                let along = ((x * dx + y * dy) * inverse).clamp(0.0, 1.0);
                let (ex, ey) = (x - along * dx, y - along * dy);
                let nearest = &mut self.nearest[row * SIDE + column];
                *nearest = nearest.min(ex * ex + ey * ey);
            }
        }
    }

    /// Draws a smooth curve through the points.
    fn curve(&mut self, points: &[Point]) {
        let mut from = points[0];
        for at in 0..points.len() - 1 {
            let [b, c] = [points[at], points[at + 1]];
            let a = points[at.saturating_sub(1)];
            let d = points[(at + 2).min(points.len() - 1)];
            for piece in 1..=PIECES {
                let to = catmull_rom(a, b, c, d, piece as f32 / PIECES as f32);
                self.line(from, to);
                from = to;
            }
        }
    }
}

/// Pixels whose centre lies within `reach` of the interval between two coordinates.
fn span(a: f32, b: f32, reach: f32) -> std::ops::Range<usize> {
    let low = (a.min(b) - reach - 0.5).max(0.0);
    let high = (a.max(b) + reach + 0.5).clamp(0.0, SIDE as f32);
    low as usize..high as usize
}

fn catmull_rom(a: Point, b: Point, c: Point, d: Point, t: f32) -> Point {
    let (t2, t3) = (t * t, t * t * t);
    let blend = |a: f32, b: f32, c: f32, d: f32| {
        0.5 * (2.0 * b
            + (c - a) * t
            + (2.0 * a - 5.0 * b + 4.0 * c - d) * t2
            + (3.0 * b - a - 3.0 * c + d) * t3)
    };
    [blend(a[0], b[0], c[0], d[0]), blend(a[1], b[1], c[1], d[1])]
}

/// Draws a digit of `class` (0 to 9) with the numbers of one stream. About 20 microseconds.
pub(super) fn draw(class: usize, stream: ChaCha8Rng) -> [u8; PIXELS] {
    use distortion as d;
    let mut draws = Draws(stream);
    let variants = glyphs::variants(class);
    let glyph = variants[(draws.unit() * variants.len() as f32) as usize % variants.len()];
    let placement = Placement::draw(&mut draws);
    let radius = draws.between(d::RADIUS);
    let mut ink = Ink::new(radius);

    let mut points: Vec<Point> = Vec::with_capacity(16);
    for stroke in glyph {
        points.clear();
        for (at, point) in stroke.iter().enumerate() {
            // A corner is one point given twice: it must stay one point.
            if at > 0 && *point == stroke[at - 1] {
                points.push(points[at - 1]);
                continue;
            }
            let jittered = [point[0] + d::JITTER * draws.normal(), point[1] + d::JITTER * draws.normal()];
            points.push(placement.place(jittered));
        }
        ink.curve(&points);
    }
    if draws.unit() < d::STRAY {
        stray_stroke(&mut ink, &mut draws);
    }
    finish(&ink, radius, &mut draws)
}

/// A short stroke that belongs to no digit.
fn stray_stroke(ink: &mut Ink, draws: &mut Draws) {
    let side = SIDE as f32;
    let from = [side * draws.unit(), side * draws.unit()];
    let to = [from[0] + 7.0 * draws.signed(), from[1] + 7.0 * draws.signed()];
    ink.line(from, to);
}

/// From distances to bytes: soft edges, a patch rubbed out, blur, contrast, noise.
fn finish(ink: &Ink, radius: f32, draws: &mut Draws) -> [u8; PIXELS] {
    use distortion as d;
    let mut page = [0.0_f32; PIXELS];
    let reach = ink.reach * ink.reach;
    for (value, &squared) in page.iter_mut().zip(&ink.nearest) {
        if squared < reach {
            *value = (radius + 0.5 - squared.sqrt()).min(1.0);
        }
    }
    if draws.unit() < d::ERASED {
        erase(&mut page, draws);
    }
    let page = blur(&page, 0.25 * draws.unit());
    let strength = 255.0 * (0.65 + 0.35 * draws.unit());
    let noise = draws.between(d::NOISE);
    let mut image = [0_u8; PIXELS];
    for (byte, value) in image.iter_mut().zip(page) {
        let value = value * strength + noise * draws.normal();
        *byte = value.clamp(0.0, 255.0) as u8;
    }
    image
}

/// Rubs out a square of 4 to 6 pixels.
fn erase(page: &mut [f32; PIXELS], draws: &mut Draws) {
    let size = 4 + (draws.unit() * 3.0) as usize;
    let corner = |unit: f32| 5 + (unit * (SIDE - 10 - size) as f32) as usize;
    let (left, top) = (corner(draws.unit()), corner(draws.unit()));
    for row in top..top + size {
        page[row * SIDE + left..row * SIDE + left + size].fill(0.0);
    }
}

/// Mixes every pixel with its neighbours: weight `side` each for the two along a row, then along a column.
fn blur(page: &[f32; PIXELS], side: f32) -> [f32; PIXELS] {
    let middle = 1.0 - 2.0 * side;
    let mut rows = [0.0_f32; PIXELS];
    for row in 0..SIDE {
        let (from, to) = (&page[row * SIDE..][..SIDE], &mut rows[row * SIDE..][..SIDE]);
        for at in 1..SIDE - 1 {
            to[at] = middle * from[at] + side * (from[at - 1] + from[at + 1]);
        }
        to[0] = middle * from[0] + side * from[1];
        to[SIDE - 1] = middle * from[SIDE - 1] + side * from[SIDE - 2];
    }
    let mut out = [0.0_f32; PIXELS];
    for at in 0..PIXELS {
        let above = if at >= SIDE { rows[at - SIDE] } else { 0.0 };
        let below = if at + SIDE < PIXELS { rows[at + SIDE] } else { 0.0 };
        out[at] = middle * rows[at] + side * (above + below);
    }
    out
}
