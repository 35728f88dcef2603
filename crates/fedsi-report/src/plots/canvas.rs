//! What a plot is drawn on: SVG for the page, SVG and PNG for papers.

use std::ops::Range;

use askama::Template;
use fedsi_metrics::quantile;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

use crate::ReportError;

// Okabe and Ito's colours: distinguishable with every kind of colour vision.
pub(super) const BLUE: RGBColor = RGBColor(0, 114, 178);
pub(super) const VERMILION: RGBColor = RGBColor(213, 94, 0);
pub(super) const ORANGE: RGBColor = RGBColor(230, 159, 0);
pub(super) const GREEN: RGBColor = RGBColor(0, 158, 115);
pub(super) const PURPLE: RGBColor = RGBColor(204, 121, 167);
pub(super) const INK: RGBColor = RGBColor(0, 0, 0);
pub(super) const SOFT: RGBColor = RGBColor(107, 107, 107);
pub(super) const LINE: RGBColor = RGBColor(221, 221, 221);

/// Drawn colours and what the page calls them, so that they follow light and dark.
const VARIABLES: [(&str, &str); 8] = [
    ("\"#000000\"", "\"currentColor\""),
    ("\"#6B6B6B\"", "\"var(--soft)\""),
    ("\"#DDDDDD\"", "\"var(--line)\""),
    ("\"#0072B2\"", "\"var(--blue)\""),
    ("\"#D55E00\"", "\"var(--vermilion)\""),
    ("\"#E69F00\"", "\"var(--orange)\""),
    ("\"#009E73\"", "\"var(--green)\""),
    ("\"#CC79A7\"", "\"var(--purple)\""),
];

/// The largest side of a plot: every plot keeps its own far below, whatever it shows, and none is drawn beyond.
const MAX_SIDE: u32 = 1_600;
/// The same of a figure that is text alone: pixels cost nothing.
const MAX_FIGURE_SIDE: u32 = 4_000;

/// Pixels of a PNG for each of a plot's units.
const PNG_SCALE: u32 = 2;
/// Pixels drawn for each of these, each way; their mean smooths edges, which plotters does not.
const OVERSAMPLED: u32 = 2;

const FONT: &str = "sans-serif";
/// The height of letters. An SVG gives them a little less than they are asked for.
pub(super) const LETTER: f64 = 13.5;
const SVG_LETTER: f64 = 1.24 * LETTER;

/// Something to draw.
pub(super) trait Plot {
    /// Width and height, in the units of text of size 14.
    fn size(&self) -> (u32, u32);

    /// Draws axes and, with `series`, what is shown between them. Says where the panels came to lie.
    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        series: bool,
    ) -> Result<Vec<Panel>, ReportError>;
}

/// Where data lies in a plot: the page's script draws a client's series there.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pixels: (Range<i32>, Range<i32>),
    x: Range<f64>,
    y: Range<f64>,
}

/// A plot in all its forms; displayed, it is an element of the page.
#[derive(Clone, Debug, Template)]
#[template(path = "plot.html")]
pub(crate) struct Drawing {
    /// Its file's name.
    pub(crate) name: String,
    /// What it shows, for those who do not see it.
    about: String,
    size: (u32, u32),
    /// Where the panels lie, for the page's script.
    panels: Option<String>,
    /// What is within the SVG element, its colours the page's.
    inline: String,
    /// As a file of its own.
    pub(crate) svg: String,
    /// The same as pixels.
    pub(crate) png: Vec<u8>,
    /// The same as PDF.
    pub(crate) pdf: Vec<u8>,
}

/// Draws a plot. `about` is what it shows, for those who do not see it. A `live` one is redrawn by the
/// page's script for the client that is chosen.
pub(super) fn drawing(name: &str, about: &str, live: bool, plot: &impl Plot) -> Result<Drawing, ReportError> {
    let size = checked_size(name, plot, MAX_SIDE)?;
    letters()?;
    let (whole, panels) = vector(plot, false, true)?;
    let inline = if live {
        let (frame, _) = vector(plot, false, false)?;
        layered(&frame, &whole)
    } else {
        whole
    };
    let (svg, _) = vector(plot, true, true)?;
    let panels: Vec<String> = panels.iter().map(Panel::json).collect();
    Ok(Drawing {
        name: name.to_owned(),
        about: about.to_owned(),
        size,
        panels: live.then(|| format!("[{}]", panels.join(","))),
        inline: in_page(&inline),
        svg,
        png: bitmap(plot)?,
        pdf: super::pdf::document(plot)?,
    })
}

/// A plot as the text of an SVG file of its own, on white, without the other forms.
pub(super) fn paper_svg(name: &str, plot: &impl Plot) -> Result<String, ReportError> {
    checked_size(name, plot, MAX_FIGURE_SIDE)?;
    letters()?;
    vector(plot, true, true).map(|(svg, _)| svg)
}

/// The size of a plot, whose sides are not larger than that.
fn checked_size(name: &str, plot: &impl Plot, most: u32) -> Result<(u32, u32), ReportError> {
    let size = plot.size();
    if size.0 > most || size.1 > most {
        let reason = format!("{name} would be {} x {} pixels, at most {most} are drawn", size.0, size.1);
        return Err(ReportError::Drawing(reason));
    }
    Ok(size)
}

/// Makes the built-in font known.
fn letters() -> Result<(), ReportError> {
    register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT)
        .map_err(|_| ReportError::Drawing("the built-in font cannot be read".to_owned()))
}

fn vector(plot: &impl Plot, paper: bool, series: bool) -> Result<(String, Vec<Panel>), ReportError> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, plot.size()).into_drawing_area();
    if paper {
        area.fill(&WHITE).map_err(failed)?;
    }
    let panels = plot.draw(&area, Pen { scale: 1.0, letter: SVG_LETTER }, series)?;
    area.present().map_err(failed)?;
    drop(area);
    Ok((valid_xml(text), panels))
}

/// Text without the characters that XML 1.0 forbids, which no escape allows either: a name may hold any.
pub(super) fn valid_xml(text: String) -> String {
    let is_valid = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}');
    if text.chars().all(is_valid) {
        return text;
    }
    text.chars().map(|c| if is_valid(c) { c } else { '\u{fffd}' }).collect()
}

/// What is drawn between the axes in a group of its own: it comes after them, so the frame alone is how `whole` begins.
fn layered(frame: &str, whole: &str) -> String {
    let end = "</svg>";
    let frame = frame.trim_end().trim_end_matches(end);
    let Some(series) = whole.strip_prefix(frame) else { return whole.to_owned() };
    let series = series.trim_end().trim_end_matches(end);
    format!("{frame}<g class=\"pooled\">\n{series}</g>\n<g class=\"chosen\"></g>\n{end}\n")
}

/// What is within the SVG element, in the page's colours.
fn in_page(svg: &str) -> String {
    let within = svg.split_once('>').map_or(svg, |(_, within)| within);
    let mut text = within.trim_end().trim_end_matches("</svg>").to_owned();
    for (drawn, variable) in VARIABLES {
        text = text.replace(drawn, variable);
    }
    text
}

fn bitmap(plot: &impl Plot) -> Result<Vec<u8>, ReportError> {
    let (width, height) = plot.size();
    let scale = PNG_SCALE * OVERSAMPLED;
    // At most MAX_SIDE each way: the product is far from what 64 bits hold.
    let count = u64::from(scale * width) * u64::from(scale * height) * 3;
    let mut pixels = vec![255; usize::try_from(count).map_err(failed)?];
    {
        let area =
            BitMapBackend::with_buffer(&mut pixels, (scale * width, scale * height)).into_drawing_area();
        plot.draw(&area, Pen { scale: f64::from(scale), letter: f64::from(scale) * LETTER }, true)?;
        area.present().map_err(failed)?;
    }
    let pixels = smoothed(&pixels, (scale * width) as usize);
    crate::image::png([PNG_SCALE * width, PNG_SCALE * height], crate::image::Channels::Colour, &pixels)
}

/// Every square of [`OVERSAMPLED`] x [`OVERSAMPLED`] pixels as their mean. One pass over the bytes.
fn smoothed(pixels: &[u8], width: usize) -> Vec<u8> {
    const SIDE: usize = OVERSAMPLED as usize;
    let mut all = Vec::with_capacity(pixels.len() / (SIDE * SIDE));
    let mut sums = vec![[0_u16; 3]; width / SIDE];
    for rows in pixels.chunks_exact(3 * width * SIDE) {
        sums.fill([0; 3]);
        for row in rows.chunks_exact(3 * width) {
            for (sum, square) in sums.iter_mut().zip(row.chunks_exact(3 * SIDE)) {
                for pixel in square.as_chunks::<3>().0 {
                    for channel in 0..3 {
                        sum[channel] += u16::from(pixel[channel]);
                    }
                }
            }
        }
        all.extend(sums.iter().flatten().map(|sum| (sum / (SIDE * SIDE) as u16) as u8));
    }
    all
}

pub(super) fn failed<E: std::fmt::Display>(error: E) -> ReportError {
    ReportError::Drawing(error.to_string())
}

impl Panel {
    /// The upper right corner, in pixels.
    pub(super) const fn corner(&self) -> (i32, i32) {
        (self.pixels.0.end, self.pixels.1.start)
    }

    fn json(&self) -> String {
        let Self { pixels: (px, py), x, y } = self;
        let (left, right, top, bottom) = (px.start, px.end, py.start, py.end);
        format!("[{left},{right},{top},{bottom},{},{},{},{}]", x.start, x.end, y.start, y.end)
    }
}

/// Sizes and strokes at the scale of what is drawn on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pen {
    scale: f64,
    letter: f64,
}

impl Pen {
    pub(super) const fn new(scale: f64, letter: f64) -> Self {
        Self { scale, letter }
    }

    /// That of the page.
    #[cfg(test)]
    pub(super) const fn plain() -> Self {
        Self { scale: 1.0, letter: SVG_LETTER }
    }

    pub(super) fn px(self, units: f64) -> i32 {
        (units * self.scale).round() as i32
    }

    pub(super) fn stroke(self, colour: impl Into<RGBAColor>, width: f64) -> ShapeStyle {
        ShapeStyle { color: colour.into(), filled: false, stroke_width: self.px(width).max(1) as u32 }
    }

    /// A line of what would be perfect.
    pub(super) fn ideal<DB: DrawingBackend>(
        self,
        chart: &mut Chart<'_, DB>,
        ends: [(f64, f64); 2],
    ) -> Result<(), ReportError> {
        let (dash, gap) = (self.px(5.0) as u32, self.px(4.0) as u32);
        let dashes = DashedLineSeries::new(ends, dash, gap, self.stroke(SOFT, 1.0));
        chart.draw_series(dashes).map(|_| ()).map_err(failed)
    }

    pub(super) fn text(self, colour: RGBColor, horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
        let font = (FONT, self.letter).into_font();
        font.color(&colour).pos(Pos::new(horizontal, vertical))
    }
}

/// The axes of a chart.
pub(super) struct Axes<'a> {
    pub(super) x: Range<f64>,
    pub(super) y: Range<f64>,
    pub(super) x_name: &'a str,
    pub(super) y_name: &'a str,
    pub(super) x_label: fn(&f64) -> String,
    pub(super) y_label: fn(&f64) -> String,
    /// About how many labels a y axis has.
    pub(super) y_labels: usize,
    /// Room below the chart and beside it.
    pub(super) space: (f64, f64),
}

/// Room for the labels and the name of an axis, below and beside; and below for labels alone.
pub(super) const NAMED: (f64, f64) = (44.0, 64.0);
pub(super) const LABELLED: (f64, f64) = (24.0, 64.0);

pub(super) type Chart<'a, DB> = ChartContext<'a, DB, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

impl Axes<'_> {
    /// A point where it is, or as far outside the axes as a line through them can tell: pixels are counted in 32 bits.
    pub(super) fn near(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let near = |value: f64, range: Range<f64>| {
            let far = 100.0 * (range.end - range.start);
            if value.is_nan() { range.start } else { value.clamp(range.start - far, range.end + far) }
        };
        (near(x, sound(&self.x)), near(y, sound(&self.y)))
    }

    /// Draws the axes.
    pub(super) fn draw<'a, DB: DrawingBackend>(
        &self,
        area: &'a DrawingArea<DB, Shift>,
        pen: Pen,
    ) -> Result<(Chart<'a, DB>, Panel), ReportError> {
        let (x, y) = (sound(&self.x), sound(&self.y));
        let mut chart = ChartBuilder::on(area)
            .margin(pen.px(8.0))
            .margin_right(pen.px(18.0))
            .x_label_area_size(pen.px(self.space.0))
            .y_label_area_size(pen.px(self.space.1))
            .build_cartesian_2d(x.clone(), y.clone())
            .map_err(failed)?;
        let soft = pen.text(SOFT, HPos::Center, VPos::Center);
        let ink = pen.text(INK, HPos::Center, VPos::Center);
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(self.x_name).y_desc(self.y_name).axis_desc_style(ink).label_style(soft);
        mesh.x_labels(6).y_labels(self.y_labels).light_line_style(TRANSPARENT);
        mesh.set_all_tick_mark_size(pen.px(5.0));
        mesh.x_label_formatter(&self.x_label).y_label_formatter(&self.y_label);
        mesh.bold_line_style(pen.stroke(LINE, 1.0)).axis_style(pen.stroke(SOFT, 1.0));
        mesh.draw().map_err(failed)?;
        let panel = Panel { pixels: chart.plotting_area().get_pixel_range(), x, y };
        Ok((chart, panel))
    }
}

/// A range that an axis can have: finite, and from a lower to a higher number. Files may hold any number, and the
/// distance of two of them may be none.
fn sound(range: &Range<f64>) -> Range<f64> {
    const LARGEST: f64 = 1e150;
    let end = |value: f64| if value.is_nan() { 0.0 } else { value.clamp(-LARGEST, LARGEST) };
    let (low, high) = (end(range.start), end(range.end));
    // Far from 0 a small distance is none at all.
    let least = (1e-9 * low.abs().max(high.abs())).max(1e-12);
    low..high.max(low + least)
}

/// A share as a percentage.
pub(super) fn percent(share: &f64) -> String {
    let value = 100.0 * share;
    if (value - value.round()).abs() < 1e-6 { format!("{value:.0}%") } else { format!("{value:.1}%") }
}

/// A whole number; nothing between two of them.
pub(super) fn whole(value: &f64) -> String {
    if (value - value.round()).abs() < 1e-6 { format!("{value:.0}") } else { String::new() }
}

/// A number with the digits it needs.
pub(super) fn number(value: &f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e5).contains(&size) {
        return format!("{value:.0e}");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The upper end of an axis that shows most of `values`, with some air; outliers may leave it.
pub(super) fn upper_end(values: &[f64], least: f64) -> f64 {
    1.08 * quantile(values, 0.95).unwrap_or(least).max(least)
}

#[cfg(test)]
mod tests;
