//! Images that are not quite as they should be: rotated, shifted, blurred, noisy, partly hidden, at five strengths.
//!
//! Each image is changed by draws of its own, keyed by the run's seed, the client, the kind, the strength and the image's
//! number: the same whenever and beside whatever else it is asked for. Sines and exponentials come from `libm`.
//!
//! | kind | strengths 1 to 5 | chance |
//! |---|---|---|
//! | rotation | 10, 20, 30, 45 and 60 degrees | to the left or to the right |
//! | shift | by 5, 10, 15, 20 and 30% of the shorter side | in which direction |
//! | blur | Gaussian, of a deviation of 1/56, 2/56, 3/56, 4/56 and 6/56 of the shorter side | none |
//! | noise | Gaussian, of a deviation of 0.1, 0.2, 0.4, 0.6 and 0.8, clipped to [-1, 1] | every pixel |
//! | occlusion | a grey square of 20, 30, 40, 50 and 60% of the shorter side | where |
//!
//! What rotation and shift bring in from outside is the nearest pixel at the edge.

use std::fmt;

use fedsi_random::{ChaCha8Rng, Purpose, Streams};
use rand::RngExt as _;
use rand_distr::{Distribution as _, StandardNormal};

/// How an image is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// Turned around its middle.
    Rotation,
    /// Moved.
    Shift,
    /// Every pixel the mean of its neighbourhood.
    Blur,
    /// Something added to every pixel.
    Noise,
    /// A square hidden.
    Occlusion,
}

/// A strength from 1, hardly visible, to 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strength(u8);

impl Strength {
    /// All of them.
    pub const ALL: [Self; 5] = [Self(1), Self(2), Self(3), Self(4), Self(5)];

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    fn of<T: Copy>(self, values: [T; 5]) -> T {
        values[usize::from(self.0) - 1]
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rotation => "rotation",
            Self::Shift => "shift",
            Self::Blur => "blur",
            Self::Noise => "noise",
            Self::Occlusion => "occlusion",
        })
    }
}

impl Corruption {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Rotation, Self::Shift, Self::Blur, Self::Noise, Self::Occlusion];

    /// Changes a client's images of `[channels, height, width]`, one after another, scaled to [-1, 1]. Values beyond the
    /// last whole image stay.
    ///
    /// Cost: a few operations a pixel; for blur some ten to a hundred, for noise a normal draw.
    pub fn apply(self, strength: Strength, images: &mut [f32], shape: [usize; 3], seed: u64, client: usize) {
        let size: usize = shape.iter().product();
        if size == 0 {
            return;
        }
        let streams = Streams::new(seed);
        let kind = (self as u64 * 5 + u64::from(strength.0)) << 32;
        let mut scratch = Vec::new();
        for (number, image) in images.chunks_exact_mut(size).enumerate() {
            let mut rng = streams.stream(Purpose::Corruption, client as u64, kind | number as u64);
            self.change(strength, image, shape, &mut rng, &mut scratch);
        }
    }

    fn change(
        self,
        strength: Strength,
        image: &mut [f32],
        [_, height, width]: [usize; 3],
        rng: &mut ChaCha8Rng,
        scratch: &mut Vec<f32>,
    ) {
        let short = height.min(width) as f64;
        let (middle_y, middle_x) = (0.5 * (height as f64 - 1.0), 0.5 * (width as f64 - 1.0));
        match self {
            Self::Rotation => {
                let degrees = strength.of([10.0_f64, 20.0, 30.0, 45.0, 60.0]);
                let angle = if rng.random::<bool>() { degrees } else { -degrees }.to_radians();
                let (sin, cos) = (libm::sin(angle), libm::cos(angle));
                resample(image, height, width, scratch, |y, x| {
                    let (y, x) = (y - middle_y, x - middle_x);
                    (middle_y + cos * y - sin * x, middle_x + sin * y + cos * x)
                });
            }
            Self::Shift => {
                let distance = strength.of([0.05, 0.1, 0.15, 0.2, 0.3]) * short;
                let angle = rng.random::<f64>() * std::f64::consts::TAU;
                let (down, right) = (distance * libm::sin(angle), distance * libm::cos(angle));
                resample(image, height, width, scratch, |y, x| (y - down, x - right));
            }
            Self::Blur => {
                let deviation = strength.of([1.0, 2.0, 3.0, 4.0, 6.0]) / 56.0 * short;
                blur(image, height, width, deviation, scratch);
            }
            Self::Noise => {
                let deviation = strength.of([0.1, 0.2, 0.4, 0.6, 0.8]);
                for pixel in image {
                    let draw: f64 = StandardNormal.sample(rng);
                    *pixel = (f64::from(*pixel) + deviation * draw).clamp(-1.0, 1.0) as f32;
                }
            }
            Self::Occlusion => {
                let side = (strength.of([0.2, 0.3, 0.4, 0.5, 0.6]) * short).round().max(1.0) as usize;
                let side = side.min(height).min(width);
                let top = rng.random_range(0..=height - side);
                let left = rng.random_range(0..=width - side);
                for plane in image.chunks_exact_mut(height * width) {
                    for row in plane.chunks_exact_mut(width).skip(top).take(side) {
                        row[left..left + side].fill(0.0);
                    }
                }
            }
        }
    }
}

/// Every pixel becomes what `source` says its place is, between the four nearest pixels.
fn resample(
    image: &mut [f32],
    height: usize,
    width: usize,
    scratch: &mut Vec<f32>,
    source: impl Fn(f64, f64) -> (f64, f64),
) {
    scratch.clear();
    scratch.extend_from_slice(image);
    for (plane, old) in image.chunks_exact_mut(height * width).zip(scratch.chunks_exact(height * width)) {
        for (at, pixel) in plane.iter_mut().enumerate() {
            let (y, x) = source((at / width) as f64, (at % width) as f64);
            let (y, x) = (y.clamp(0.0, (height - 1) as f64), x.clamp(0.0, (width - 1) as f64));
            let (top, left) = (y.floor() as usize, x.floor() as usize);
            let (bottom, right) = ((top + 1).min(height - 1), (left + 1).min(width - 1));
            let (down, along) = (y - y.floor(), x - x.floor());
            let value = |row: usize, column: usize| f64::from(old[row * width + column]);
            let upper = value(top, left) * (1.0 - along) + value(top, right) * along;
            let lower = value(bottom, left) * (1.0 - along) + value(bottom, right) * along;
            *pixel = (upper * (1.0 - down) + lower * down) as f32;
        }
    }
}

/// A Gaussian mean over rows, then over columns, as far as three deviations.
fn blur(image: &mut [f32], height: usize, width: usize, deviation: f64, scratch: &mut Vec<f32>) {
    let radius = (3.0 * deviation).ceil() as isize;
    let weight = |step: isize| libm::exp(-0.5 * (step as f64 / deviation).powi(2));
    let sum: f64 = (-radius..=radius).map(weight).sum();
    let weights: Vec<f64> = (-radius..=radius).map(|step| weight(step) / sum).collect();
    for (rows, columns) in [(0, 1), (1, 0)] {
        scratch.clear();
        scratch.extend_from_slice(image);
        for (plane, old) in image.chunks_exact_mut(height * width).zip(scratch.chunks_exact(height * width)) {
            for (at, pixel) in plane.iter_mut().enumerate() {
                let (row, column) = (at / width, at % width);
                let mean = weights.iter().zip(-radius..).map(|(weight, step)| {
                    let near = |from: usize, by: isize, size: usize| {
                        from.saturating_add_signed(by * step).min(size - 1)
                    };
                    weight * f64::from(old[near(row, rows, height) * width + near(column, columns, width)])
                });
                *pixel = mean.sum::<f64>() as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: [usize; 3] = [1, 28, 28];

    /// A white bar on black, off the middle.
    fn bars(count: usize) -> Vec<f32> {
        let pixel =
            |at: usize| if (4..20).contains(&(at / 28)) && (8..12).contains(&(at % 28)) { 1.0 } else { -1.0 };
        (0..count).flat_map(|_| (0..784).map(pixel)).collect()
    }

    fn changed(kind: Corruption, strength: Strength, seed: u64, client: usize) -> Vec<f32> {
        let mut images = bars(2);
        kind.apply(strength, &mut images, SHAPE, seed, client);
        images
    }

    fn difference(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum()
    }

    #[test]
    fn every_kind_changes_images_more_with_its_strength_and_keeps_their_range() {
        for kind in Corruption::ALL {
            let changes = Strength::ALL.map(|strength| {
                // The mean over draws: one occlusion may miss the bar.
                (0..40).map(|client| difference(&changed(kind, strength, 1, client), &bars(2))).sum::<f64>()
            });
            assert!(changes[0] > 0.0, "{kind} {changes:?}");
            assert!(changes.is_sorted_by(|a, b| a < b), "{kind} {changes:?}");
            for strength in Strength::ALL {
                let images = changed(kind, strength, 1, 0);
                assert!(images.iter().all(|pixel| (-1.0..=1.0).contains(pixel)), "{kind}");
            }
        }
    }

    #[test]
    fn an_image_is_changed_by_its_own_draws_alone() {
        for kind in Corruption::ALL {
            let two = changed(kind, Strength::ALL[2], 1, 0);
            assert_eq!(two, changed(kind, Strength::ALL[2], 1, 0), "{kind}: repeatable");
            let mut one = bars(1);
            kind.apply(Strength::ALL[2], &mut one, SHAPE, 1, 0);
            assert_eq!(one, two[..784], "{kind}: whatever follows");
            if kind != Corruption::Blur {
                // Not rotation by its number: two images may be turned the same way.
                let others = (1..8).any(|client| changed(kind, Strength::ALL[2], 1, client) != two);
                assert!(others, "{kind}: clients differ");
                assert!(
                    (2..9).any(|seed| changed(kind, Strength::ALL[2], seed, 0) != two),
                    "{kind}: seeds differ"
                );
            }
        }
    }

    #[test]
    fn rotation_keeps_the_middle_and_blur_the_mean_of_a_constant() {
        let mut image = vec![-1.0; 81];
        image[40] = 1.0;
        Corruption::Rotation.apply(Strength::ALL[3], &mut image, [1, 9, 9], 1, 0);
        assert!((image[40] - 1.0).abs() < 1e-6);
        let mut flat = vec![0.25; 3 * 20];
        Corruption::Blur.apply(Strength::ALL[4], &mut flat, [3, 4, 5], 1, 0);
        assert!(flat.iter().all(|pixel| (pixel - 0.25).abs() < 1e-6));
    }

    #[test]
    fn all_channels_move_together() {
        let plane = bars(1);
        let mut colours = [plane.clone(), plane].concat();
        for kind in [Corruption::Rotation, Corruption::Shift, Corruption::Blur, Corruption::Occlusion] {
            kind.apply(Strength::ALL[1], &mut colours, [2, 28, 28], 3, 1);
            assert_eq!(colours[..784], colours[784..], "{kind}");
        }
    }

    #[test]
    fn nothing_happens_to_no_pixels() {
        let mut none: [f32; 0] = [];
        Corruption::Noise.apply(Strength::ALL[0], &mut none, [0, 4, 4], 1, 0);
        let mut tiny = [0.5];
        Corruption::Occlusion.apply(Strength::ALL[0], &mut tiny, [1, 1, 1], 1, 0);
        assert_eq!(tiny, [0.0]);
    }
}
