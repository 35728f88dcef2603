//! A plot as PDF, for papers: vectors, and letters as outlines, so that no font need be there or be embedded.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io::Write as _;

use ab_glyph::{Font as _, FontRef, OutlineCurve, Point, PxScale, ScaleFont as _};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::{Content, Filter, Finish as _, Name, Pdf, Rect, Ref};
use plotters::prelude::{DrawingBackend, IntoDrawingArea as _};
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind};

use super::canvas::{LETTER, Pen, Plot, failed};
use crate::ReportError;

/// How far a circle's control points lie from its ends, in radii.
const CIRCLE: f32 = 0.552_284_8;

/// The objects of the file.
const CATALOG: i32 = 1;
const PAGES: i32 = 2;
const PAGE: i32 = 3;
const CONTENT: i32 = 4;
/// The first of the opacities, one each after it.
const OPACITIES: i32 = 5;

/// The plot as a PDF of one page of its size, a point a unit. Costs drawing it once more.
pub(super) fn document(plot: &impl Plot) -> Result<Vec<u8>, ReportError> {
    let size = plot.size();
    let font = FontRef::try_from_slice(epaint_default_fonts::UBUNTU_LIGHT).map_err(failed)?;
    let mut drawn = Drawn { content: Content::new(), opacities: BTreeSet::new() };
    // Plots count from above, PDF from below.
    drawn.content.transform([1.0, 0.0, 0.0, -1.0, 0.0, size.1 as f32]);
    {
        let area = PdfBackend { drawn: &mut drawn, size, font: &font }.into_drawing_area();
        plot.draw(&area, Pen::new(1.0, LETTER), true)?;
        area.present().map_err(failed)?;
    }
    let Drawn { content, opacities } = drawn;
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    packed.write_all(content.finish().as_slice()).map_err(failed)?;
    let packed = packed.finish().map_err(failed)?;
    let mut pdf = Pdf::new();
    pdf.catalog(Ref::new(CATALOG)).pages(Ref::new(PAGES));
    pdf.pages(Ref::new(PAGES)).kids([Ref::new(PAGE)]).count(1);
    let mut page = pdf.page(Ref::new(PAGE));
    page.media_box(Rect::new(0.0, 0.0, size.0 as f32, size.1 as f32));
    page.parent(Ref::new(PAGES)).contents(Ref::new(CONTENT));
    let mut resources = page.resources();
    let mut states = resources.ext_g_states();
    for (id, opacity) in (OPACITIES..).zip(&opacities) {
        states.pair(Name(opacity_name(*opacity).as_bytes()), Ref::new(id));
    }
    states.finish();
    resources.finish();
    page.finish();
    pdf.stream(Ref::new(CONTENT), &packed).filter(Filter::FlateDecode);
    for (id, &opacity) in (OPACITIES..).zip(&opacities) {
        let share = f32::from(opacity) / 100.0;
        pdf.ext_graphics(Ref::new(id)).non_stroking_alpha(share).stroking_alpha(share);
    }
    Ok(pdf.finish())
}

/// What a state of this opacity, in percent, is called.
fn opacity_name(percent: u8) -> String {
    format!("a{percent}")
}

/// What is drawn so far.
struct Drawn {
    content: Content,
    /// In percent.
    opacities: BTreeSet<u8>,
}

struct PdfBackend<'a> {
    drawn: &'a mut Drawn,
    size: (u32, u32),
    font: &'a FontRef<'static>,
}

type Done = Result<(), DrawingErrorKind<Infallible>>;

/// A place on the page.
fn place((x, y): BackendCoord) -> (f32, f32) {
    (x as f32, y as f32)
}

impl PdfBackend<'_> {
    /// Sets colour and opacity for what follows; false where it cannot be seen.
    fn colour(&mut self, colour: BackendColor) -> bool {
        let percent = (100.0 * colour.alpha).round().clamp(0.0, 100.0) as u8;
        if percent == 0 {
            return false;
        }
        let [red, green, blue] =
            [colour.rgb.0, colour.rgb.1, colour.rgb.2].map(|part| f32::from(part) / 255.0);
        self.drawn.opacities.insert(percent);
        let content = &mut self.drawn.content;
        content.set_parameters(Name(opacity_name(percent).as_bytes()));
        content.set_fill_rgb(red, green, blue).set_stroke_rgb(red, green, blue);
        true
    }

    fn path(&mut self, points: impl IntoIterator<Item = BackendCoord>) -> bool {
        let mut points = points.into_iter().map(place);
        let Some((x, y)) = points.next() else { return false };
        self.drawn.content.move_to(x, y);
        for (x, y) in points {
            self.drawn.content.line_to(x, y);
        }
        true
    }

    /// Letters as outlines, the line's left end at (0, 0) of its baseline.
    fn letters(&mut self, text: &str, size: f32, (left, baseline): (f32, f32)) {
        let scaled = self.font.as_scaled(PxScale::from(size));
        let (wide, tall) = (scaled.h_scale_factor(), scaled.v_scale_factor());
        let mut x = left;
        for letter in text.chars() {
            let id = self.font.glyph_id(letter);
            let at = |point: Point| (x + wide * point.x, baseline - tall * point.y);
            if let Some(outline) = self.font.outline(id) {
                self.outline(&outline.curves, at);
            }
            x += scaled.h_advance(id);
        }
        self.drawn.content.fill_nonzero();
    }

    fn outline(&mut self, curves: &[OutlineCurve], at: impl Fn(Point) -> (f32, f32)) {
        let content = &mut self.drawn.content;
        let mut end = None;
        for curve in curves {
            let (OutlineCurve::Line(start, _)
            | OutlineCurve::Quad(start, ..)
            | OutlineCurve::Cubic(start, ..)) = curve;
            if end != Some(*start) {
                let (x, y) = at(*start);
                content.move_to(x, y);
            }
            match curve {
                OutlineCurve::Line(_, to) => {
                    let (x, y) = at(*to);
                    content.line_to(x, y);
                    end = Some(*to);
                }
                OutlineCurve::Quad(from, control, to) => {
                    // The same curve by two control points.
                    let ((x0, y0), (x, y), (x3, y3)) = (at(*from), at(*control), at(*to));
                    let near = |end: f32, control: f32| end + (control - end) * 2.0 / 3.0;
                    content.cubic_to(near(x0, x), near(y0, y), near(x3, x), near(y3, y), x3, y3);
                    end = Some(*to);
                }
                OutlineCurve::Cubic(_, first, second, to) => {
                    let ((x1, y1), (x2, y2), (x3, y3)) = (at(*first), at(*second), at(*to));
                    content.cubic_to(x1, y1, x2, y2, x3, y3);
                    end = Some(*to);
                }
            }
        }
    }

    fn width(&self, text: &str, size: f32) -> f32 {
        let scaled = self.font.as_scaled(PxScale::from(size));
        text.chars().map(|letter| scaled.h_advance(self.font.glyph_id(letter))).sum()
    }
}

impl DrawingBackend for PdfBackend<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Done {
        Ok(())
    }

    fn present(&mut self) -> Done {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, colour: BackendColor) -> Done {
        if self.colour(colour) {
            let (x, y) = place(point);
            self.drawn.content.rect(x, y, 1.0, 1.0).fill_nonzero();
        }
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Done {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Done {
        if self.colour(style.color()) {
            let ((left, top), (right, bottom)) = (place(upper_left), place(bottom_right));
            self.drawn.content.set_line_width(style.stroke_width() as f32);
            self.drawn.content.rect(left, top, right - left, bottom - top);
            if fill {
                self.drawn.content.fill_nonzero()
            } else {
                self.drawn.content.stroke()
            };
        }
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Done {
        if style.stroke_width() > 0 && self.colour(style.color()) {
            self.drawn.content.set_line_width(style.stroke_width() as f32);
            if self.path(path) {
                self.drawn.content.stroke();
            }
        }
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        centre: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Done {
        if self.colour(style.color()) {
            let ((x, y), r) = (place(centre), radius as f32);
            let c = CIRCLE * r;
            let content = &mut self.drawn.content;
            content.set_line_width(style.stroke_width() as f32);
            content.move_to(x + r, y);
            content.cubic_to(x + r, y + c, x + c, y + r, x, y + r);
            content.cubic_to(x - c, y + r, x - r, y + c, x - r, y);
            content.cubic_to(x - r, y - c, x - c, y - r, x, y - r);
            content.cubic_to(x + c, y - r, x + r, y - c, x + r, y).close_path();
            if fill {
                content.fill_nonzero()
            } else {
                content.stroke()
            };
        }
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Done {
        if self.colour(style.color()) && self.path(corners) {
            self.drawn.content.close_path().fill_nonzero();
        }
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Done {
        let size = style.size() as f32;
        if text.is_empty() || !self.colour(style.color()) {
            return Ok(());
        }
        let scaled = self.font.as_scaled(PxScale::from(size));
        let (width, ascent) = (self.width(text, size), scaled.ascent());
        let left = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => -0.5 * width,
            HPos::Right => -width,
        };
        let top = match style.anchor().v_pos {
            VPos::Top => 0.0,
            VPos::Center => -0.5 * size,
            VPos::Bottom => -size,
        };
        // Turned about the anchor, clockwise as it is seen.
        let [a, b, c, d] = match style.transform() {
            FontTransform::None => [1.0, 0.0, 0.0, 1.0],
            FontTransform::Rotate90 => [0.0, 1.0, -1.0, 0.0],
            FontTransform::Rotate180 => [-1.0, 0.0, 0.0, -1.0],
            FontTransform::Rotate270 => [0.0, -1.0, 1.0, 0.0],
        };
        let (x, y) = place(at);
        self.drawn.content.save_state();
        self.drawn.content.transform([a, b, c, d, x, y]);
        self.letters(text, size, (left, top + ascent));
        self.drawn.content.restore_state();
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let size = style.size() as f32;
        let (width, height) = (self.width(text, size).ceil() as u32, size.ceil() as u32);
        Ok(match style.transform() {
            FontTransform::None | FontTransform::Rotate180 => (width, height),
            FontTransform::Rotate90 | FontTransform::Rotate270 => (height, width),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::{Axes, NAMED, number};
    use super::super::lines::Lines;
    use super::*;

    #[test]
    fn a_plot_is_a_page_of_its_size_without_fonts() {
        let axes = Axes {
            x: 0.0..1.0,
            y: 0.0..1.0,
            x_name: "round",
            y_name: "loss ± 1",
            x_label: number,
            y_label: number,
            y_labels: 6,
            space: NAMED,
        };
        let lines =
            Lines { axes, curves: vec![("one", vec![(0.0, 0.0), (1.0, 1.0)])], ideal: None, marked: true };
        let bytes = document(&lines).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("%PDF-1.") && text.trim_end().ends_with("%%EOF"), "{text}");
        let (width, height) = lines.size();
        assert!(text.contains(&format!("/MediaBox [0 0 {width} {height}]")), "{text}");
        assert!(!text.contains("/Font") && text.contains("/FlateDecode") && text.contains("/a100"), "{text}");
        assert_eq!(document(&lines).unwrap(), bytes, "equal plots give equal bytes");
    }
}
