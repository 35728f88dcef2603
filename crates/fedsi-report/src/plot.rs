//! Plots as SVG text, in colours that tell apart for every kind of sight (Okabe and Ito).

use fedsi_metrics::ReliabilityBin;
use plotters::prelude::*;

use crate::ReportError;

const SIZE: (u32, u32) = (520, 360);
const FONT: (&str, u32) = ("sans-serif", 15);
const BLUE: RGBColor = RGBColor(0, 114, 178);
const VERMILION: RGBColor = RGBColor(213, 94, 0);
const GREY: RGBColor = RGBColor(120, 120, 120);

fn drawing<E: std::fmt::Display>(error: E) -> ReportError {
    ReportError::Drawing(error.to_string())
}

/// Accuracy against confidence, a bar a bin over the diagonal of perfect calibration; the frames
/// show how many samples stand behind a bar.
pub(crate) fn reliability(bins: &[ReliabilityBin]) -> Result<String, ReportError> {
    let total: usize = bins.iter().map(|bin| bin.count).sum();
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(38)
            .y_label_area_size(48)
            .build_cartesian_2d(0.0..1.0, 0.0..1.0)
            .map_err(drawing)?;
        let mesh = &mut chart.configure_mesh();
        mesh.x_desc("confidence").y_desc("accuracy").label_style(FONT).axis_desc_style(FONT);
        mesh.light_line_style(TRANSPARENT).draw().map_err(drawing)?;
        for bin in bins.iter().filter(|bin| bin.count > 0) {
            let share = bin.count as f64 / total as f64;
            let bar =
                |top, colour: RGBAColor| Rectangle::new([(bin.lo, 0.0), (bin.hi, top)], colour.filled());
            chart.draw_series([bar(bin.accuracy, BLUE.mix(0.45))]).map_err(drawing)?;
            let frame = Rectangle::new([(bin.lo, 0.0), (bin.hi, share)], VERMILION.stroke_width(3));
            chart.draw_series([frame]).map_err(drawing)?;
            chart
                .draw_series([Circle::new((bin.confidence, bin.accuracy), 3, BLACK.filled())])
                .map_err(drawing)?;
        }
        chart
            .draw_series(LineSeries::new([(0.0, 0.0), (1.0, 1.0)], GREY.stroke_width(1)))
            .map_err(drawing)?;
        area.present().map_err(drawing)?;
    }
    Ok(svg)
}

/// A curve over rounds; none where there are no points.
pub(crate) fn curve(axis: &str, points: &[(f64, f64)]) -> Result<Option<String>, ReportError> {
    let Some(last) = points.iter().map(|(x, _)| *x).max_by(f64::total_cmp) else { return Ok(None) };
    let top = points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(38)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..last.max(1.0), 0.0..(1.05 * top).max(1e-6))
            .map_err(drawing)?;
        let mesh = &mut chart.configure_mesh();
        mesh.x_desc("round").y_desc(axis).label_style(FONT).axis_desc_style(FONT);
        mesh.x_label_formatter(&|round| format!("{round:.0}"));
        mesh.light_line_style(TRANSPARENT).draw().map_err(drawing)?;
        chart.draw_series(LineSeries::new(points.iter().copied(), BLUE.stroke_width(2))).map_err(drawing)?;
        area.present().map_err(drawing)?;
    }
    Ok(Some(svg))
}
