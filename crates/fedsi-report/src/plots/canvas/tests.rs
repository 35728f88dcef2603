//! Text, ranges and sizes that nobody expects.

use super::*;

#[test]
fn what_xml_forbids_is_replaced() {
    assert_eq!(
        valid_xml("a\0b\u{1b}\u{b}\u{fffe}\u{ffff}c\td".to_owned()),
        "a\u{fffd}b\u{fffd}\u{fffd}\u{fffd}\u{fffd}c\td"
    );
    assert_eq!(valid_xml("Zoë 李 🙂 <g>\n".to_owned()), "Zoë 李 🙂 <g>\n");
}

#[test]
fn axes_have_a_range_whatever_the_numbers() {
    let infinite = f64::INFINITY;
    for range in
        [0.0..1.0, 0.0..0.0, 1.0..0.0, f64::NAN..f64::NAN, -infinite..infinite, 1e300..1e300, -1e308..1e308]
    {
        let found = sound(&range);
        assert!(found.start < found.end && (found.end - found.start).is_finite(), "{range:?}: {found:?}");
    }
    assert_eq!(sound(&(0.25..0.75)), 0.25..0.75);
}

#[test]
fn points_far_outside_are_drawn_without_a_panic() {
    let far = [(1e308, -1e308), (f64::NAN, f64::INFINITY), (0.5, 0.5), (-1e20, 1e20)];
    let axes = || Axes {
        x: 0.0..1.0,
        y: 0.0..1e-6,
        x_name: "",
        y_name: "",
        x_label: number,
        y_label: number,
        y_labels: 6,
        space: NAMED,
    };
    let named = (0..far.len()).map(|place| (place, "a".to_owned())).collect();
    let dots = super::super::scatter::Scatter { axes: axes(), dots: far.to_vec(), named };
    drawing("dots", "", true, &dots).unwrap();
    let curves = vec![("a", far.to_vec())];
    let lines = super::super::lines::Lines { axes: axes(), curves, ideal: None, marked: true };
    drawing("lines", "", true, &lines).unwrap();
}

#[test]
fn a_plot_beyond_measure_is_refused() {
    struct Tall(u32);
    impl Plot for Tall {
        fn size(&self) -> (u32, u32) {
            (10, self.0)
        }
        fn draw<DB: DrawingBackend>(
            &self,
            _: &DrawingArea<DB, Shift>,
            _: Pen,
            _: bool,
        ) -> Result<Vec<Panel>, ReportError> {
            Ok(Vec::new())
        }
    }
    assert!(drawing("tall", "", false, &Tall(MAX_SIDE)).is_ok());
    let error = drawing("tall", "", false, &Tall(u32::MAX)).unwrap_err().to_string();
    assert!(error.contains("tall would be 10 x 4294967295 pixels"), "{error}");
}
