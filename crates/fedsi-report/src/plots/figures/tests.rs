//! What figures are made of, what they refuse, and samples to look at.

use fedsi_metrics::{Bins, ReliabilityTable};

use super::super::canvas::Plot as _;
use super::*;

const METHODS: [&str; 15] = [
    "FedAvg",
    "FedAvg-FT",
    "FedProx",
    "FedPer",
    "FedRep",
    "LG-FedAvg",
    "FedBABU",
    "FedBABU, noise 0.3",
    "pFedMe",
    "pFedBayes",
    "BPFed",
    "FedPop",
    "FedSI (paper)",
    "FedSI (calibrated)",
    "All data in one place",
];

const DATASETS: [&str; 6] = [
    "MNIST (small)",
    "MNIST (large)",
    "Fashion (small)",
    "Fashion (large)",
    "CIFAR-10 (small)",
    "CIFAR-10 (large)",
];

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|&name| name.to_owned()).collect()
}

/// Values that differ between rows and panels, with an outlier at the top of each.
fn dots() -> MethodDots {
    let value = |panel: usize, row: usize| match row {
        0 => 0.43 + 0.02 * panel as f64,
        13 => 0.955 - 0.05 * panel as f64,
        _ => 0.90 + 0.004 * ((row * 7 + panel * 3) % 13) as f64 - 0.05 * panel as f64,
    };
    let row = |panel: usize, row: usize| DotRow {
        value: (row != 9).then(|| value(panel, row)),
        interval: (row != 5).then(|| [value(panel, row) - 0.004, value(panel, row) + 0.004]),
    };
    let panels = DATASETS.iter().enumerate().map(|(place, title)| DotPanel {
        title: (*title).to_owned(),
        axis: if place == 5 { "ECE" } else { "accuracy" }.to_owned(),
        unit: if place == 5 { Unit::Number } else { Unit::Percent },
        farthest: None,
        lower_is_better: place == 5,
        rows: (0..METHODS.len()).map(|of| row(place, of)).collect(),
    });
    MethodDots {
        title: "Accuracy of all methods".to_owned(),
        methods: names(&METHODS),
        highlighted: Some(13),
        panels: panels.collect(),
        columns: 2,
        better_label: "better".to_owned(),
        dot_label: "mean, 95% interval".to_owned(),
        hollow_label: "fewer than 5 seeds".to_owned(),
    }
}

fn lines(methods: usize) -> MethodLines {
    let x = [3.0, 5.0, 7.0, 9.0].map(|value| SettingValue { value, label: format!("{value}%") });
    let line = |panel: usize, method: usize| {
        let value = |step: usize| {
            if method == 0 || (methods > 4 && method == 3 && step == 0) {
                0.3
            } else {
                0.9 + 0.006 * method as f64 + 0.003 * ((step + panel) % 3) as f64
            }
        };
        let point = |step: usize| {
            let value = value(step);
            (method != 2 || step != 1)
                .then_some(LinePoint { value, interval: Some([value - 0.003, value + 0.002]) })
        };
        MethodLine { method, points: (0..4).map(point).collect() }
    };
    let panels = DATASETS[..4].iter().enumerate().map(|(place, title)| LinePanel {
        title: (*title).to_owned(),
        axis: "accuracy, higher is better".to_owned(),
        unit: Unit::Percent,
        lines: (0..methods).map(|method| line(place, method)).collect(),
    });
    MethodLines {
        title: "Accuracy over the subnetwork's share".to_owned(),
        methods: names(&METHODS[METHODS.len() - methods..]),
        highlighted: Some(methods - 2),
        unnamed: Vec::new(),
        unnamed_label: "other methods".to_owned(),
        x_axis: "share of the parameters".to_owned(),
        x: x.into(),
        panels: panels.collect(),
        columns: 2,
    }
}

fn reliability(columns: usize) -> ReliabilityPanels {
    let cell = |row: usize, column: usize| {
        let mut table = ReliabilityTable::new(Bins::default());
        for sample in 0..1_500_usize {
            let confidence = 1.0 - 0.75 * ((sample as f64 + 0.5) / 1_500.0).powi(4 - (column % 3) as i32);
            let chance = ((sample * 7_919) % 1_000) as f64 / 1_000.0;
            table.record(confidence, chance < confidence - 0.06 * row as f64);
        }
        // A bin that shows chance alone.
        (0..3).for_each(|sample| table.record(0.15, sample == 0));
        let floor = table.ece_floor().map(|floor| floor.mean);
        ReliabilityCell { ece: table.ece().unwrap(), bins: table.bins().collect(), floor }
    };
    let row = |place: usize, title: &str| ReliabilityRow {
        title: title.to_owned(),
        cells: (0..columns).map(|column| (place != 3 || column != 1).then(|| cell(place, column))).collect(),
    };
    ReliabilityPanels {
        title: "Reliability of the Bayesian methods".to_owned(),
        columns: names(&METHODS[METHODS.len() - columns..]),
        rows: DATASETS[..4].iter().enumerate().map(|(place, title)| row(place, title)).collect(),
    }
}

fn count(svg: &str, element: &str) -> usize {
    svg.matches(&format!("<{element} ")).count()
}

/// All words of a figure.
fn words(svg: &str) -> Vec<&str> {
    let text = svg.split("<text").skip(1).filter_map(|part| part.split_once('>'));
    text.filter_map(|(_, rest)| rest.split_once("</text>")).map(|(words, _)| words.trim()).collect()
}

/// Set `FEDSI_FIGURES` to a folder to look at the samples.
fn keep(name: &str, svg: &str) {
    if let Some(folder) = std::env::var_os("FEDSI_FIGURES") {
        std::fs::write(std::path::Path::new(&folder).join(name), svg).unwrap();
    }
}

/// One element of XML with an opaque background, a title and a description.
fn check_file(svg: &str, title: &str, about: &str) {
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("viewBox="), "it must scale with the page");
    assert!(svg.contains(" role=\"img\">"));
    assert!(svg.contains(&format!("<title>{title}</title>")));
    assert!(svg.contains(&format!("<desc>{about}</desc>")));
    let first = svg.find("<rect").map(|at| &svg[at..at + 200]).unwrap();
    assert!(first.contains("fill=\"#FFFFFF\"") && first.contains("opacity=\"1\""), "{first}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "every place is a number");
}

#[test]
fn dots_of_fifteen_methods_on_six_datasets() {
    let figure = dots();
    let svg = figure.svg().unwrap();
    keep("dots.svg", &svg);
    keep(
        "dots-one.svg",
        &MethodDots { panels: figure.panels[..1].to_vec(), ..figure.clone() }.svg().unwrap(),
    );
    keep("dots-three.svg", &MethodDots { columns: 3, ..figure.clone() }.svg().unwrap());
    check_file(&svg, &figure.title, &figure.about());
    let words = words(&svg);
    for name in METHODS {
        assert_eq!(words.iter().filter(|word| **word == name).count(), 3, "{name}: once a row of panels");
    }
    // A dot for each value that is inside, and one in the legend: 14 methods have a value, one of them is far off. Another one
    // has no interval: hollow, drawn as its face and its edge.
    assert_eq!(count(&svg, "circle"), 6 * 14 + 1 + 2);
    assert!(
        words.contains(&"43.0%") && words.contains(&"0.53"),
        "what is off is an arrow and its value: {words:?}"
    );
    assert!(words.contains(&"accuracy (better \u{2192})") && words.contains(&"ECE (\u{2190} better)"));
    assert!(figure.about().contains("FedAvg 43.00% (42.60% to 43.40%)"));
    assert_eq!(svg, dots().svg().unwrap());
}

/// The largest figures that are allowed are drawn.
#[test]
fn all_panels_below_each_other() {
    let mut figure = MethodDots { columns: 1, ..dots() };
    figure.methods.resize(MOST_METHODS, "another method".to_owned());
    figure.panels.iter_mut().for_each(|panel| panel.rows.resize(MOST_METHODS, DotRow::default()));
    assert!(words(&figure.svg().unwrap()).contains(&"CIFAR-10 (large)"));
    let mut figure = MethodLines { columns: 1, ..lines(15) };
    figure.panels.extend_from_within(..2);
    assert_eq!(figure.panels.len(), MOST_PANELS);
    figure.svg().unwrap();
    let mut figure = reliability(6);
    figure.rows.resize(ReliabilityPanels::MOST_ROWS, figure.rows[0].clone());
    figure.svg().unwrap();
}

#[test]
fn only_dots_without_an_interval_are_hollow() {
    let mut figure = dots();
    assert!(words(&figure.svg().unwrap()).contains(&"fewer than 5 seeds"));
    let all = figure.panels.iter_mut().flat_map(|panel| &mut panel.rows);
    all.for_each(|row| row.interval = row.value.map(|value| [value - 0.01, value + 0.01]));
    let svg = figure.svg().unwrap();
    assert!(!words(&svg).contains(&"fewer than 5 seeds"), "nothing is hollow");
    assert!(words(&svg).contains(&"mean, 95% interval"));
    assert_eq!(count(&svg, "circle"), 6 * 13 + 1);
}

/// Where a panel says how far it reaches, what is farther from the highlighted method is an arrow; and words that are wider
/// than panels widen them.
#[test]
fn far_from_the_highlighted_method_are_arrows() {
    let mut figure = MethodDots { panels: dots().panels[..3].to_vec(), columns: 3, ..dots() };
    let (usual, narrow) = (count(&figure.svg().unwrap(), "circle"), figure.size().0);
    // The second panel alone.
    figure.panels[1].farthest = Some(0.01);
    let centre = figure.panels[1].rows[13].value.unwrap();
    let values: Vec<f64> = figure.panels[1].rows.iter().filter_map(|row| row.value).collect();
    let far = values.iter().filter(|value| (*value - centre).abs() > 0.013).count();
    let svg = figure.svg().unwrap();
    keep("dots-near.svg", &svg);
    assert!(far > 5, "{far}");
    // One method is far from all others anyway.
    assert_eq!(count(&svg, "circle"), usual - (far - 1));
    figure.better_label = "the first of these methods is better".to_owned();
    assert!(figure.size().0 > narrow, "no words run into those of the next panel");
    assert!(
        words(&figure.svg().unwrap()).contains(&"accuracy (the first of these methods is better \u{2192})")
    );
}

/// More methods than colours can tell apart: those without a name are one grey entry of the legend.
#[test]
fn lines_without_a_name_are_grey() {
    let mut figure = lines(15);
    figure.unnamed = (1..12).collect();
    let svg = figure.svg().unwrap();
    keep("lines-grey.svg", &svg);
    let words = words(&svg);
    for (place, name) in figure.methods.iter().enumerate() {
        let expected = usize::from(!figure.unnamed.contains(&place));
        assert_eq!(words.iter().filter(|word| *word == name).count(), expected, "{name}");
    }
    assert!(words.contains(&"other methods") && svg.contains("#B4B9C0"), "{words:?}");
    assert!(figure.about().contains("FedBABU, noise 0.3 "), "every value stands in words");
    figure.unnamed = (0..15).collect();
    assert!(figure.svg().unwrap_err().to_string().contains("names none of its methods"));
}

#[test]
fn lines_of_few_and_of_many_methods() {
    for methods in [4, 15] {
        let figure = lines(methods);
        let svg = figure.svg().unwrap();
        keep(&format!("lines-{methods}.svg"), &svg);
        check_file(&svg, &figure.title, &figure.about());
        let words = words(&svg);
        for name in &figure.methods {
            assert_eq!(words.iter().filter(|word| *word == name).count(), 1, "{name}: in the legend alone");
        }
        assert_eq!(words.iter().filter(|word| **word == "3%").count(), 4);
        // The first method is far below: an arrow and its value at each of four values in four panels; of many another
        // one starts there.
        let beyond = if methods > 4 { 20 } else { 16 };
        assert_eq!(words.iter().filter(|word| **word == "30.0%").count(), beyond);
        assert!(svg.contains("stroke-width=\"4\""), "the highlighted one is thicker");
    }
    assert!(lines(4).about().contains("FedPop 30.00% (29.70% to 30.20%) at 3%"));
}

#[test]
fn reliability_on_four_datasets() {
    for columns in [1, 2, 3, 6] {
        let figure = reliability(columns);
        let svg = figure.svg().unwrap();
        keep(&format!("reliability-{columns}.svg"), &svg);
        check_file(&svg, &figure.title, &figure.about());
        let words = words(&svg);
        let cells = 4 * columns - usize::from(columns > 1);
        assert_eq!(words.iter().filter(|word| word.starts_with("ECE ")).count(), cells);
        assert_eq!(words.iter().filter(|word| **word == "no such runs").count(), usize::from(columns > 1));
        let full: usize = figure
            .rows
            .iter()
            .flat_map(|row| row.cells.iter().flatten())
            .map(|cell| cell.bins.iter().filter(|bin| bin.count > 0).count())
            .sum();
        assert_eq!(svg.matches("opacity=\"0.1875\"").count(), cells, "the bin of three samples is faint");
        // Of each bin a bar in the diagram, one in the histogram, and a frame at least.
        assert!(count(&svg, "rect") >= 3 * full, "{} rectangles of {full} bins", count(&svg, "rect"));
    }
}

#[test]
fn any_text_and_any_number_gives_a_file() {
    let mut figure = dots();
    figure.title = "a < b & \u{1}".to_owned();
    figure.methods[0] = "<script>&".to_owned();
    figure.panels[0].rows[1].value = Some(f64::NAN);
    figure.panels[0].rows[2].interval = Some([f64::NEG_INFINITY, f64::INFINITY]);
    figure.panels[1].rows.iter_mut().for_each(|row| row.value = None);
    figure.panels[2].rows.iter_mut().for_each(|row| *row = DotRow::default());
    let svg = figure.svg().unwrap();
    assert!(!svg.contains("<script>") && !svg.contains('\u{1}') && svg.contains("<title>a &lt; b &amp; "));
    let mut figure = lines(4);
    figure.panels[0].lines[1].points = vec![Some(LinePoint { value: f64::NAN, interval: None }); 4];
    figure.panels[1].lines.clear();
    assert!(!figure.svg().unwrap().contains("cx=\"NaN"));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let error = |result: Result<String, ReportError>| result.unwrap_err().to_string();
    let mut figure = dots();
    figure.panels[2].rows.pop();
    let found = error(figure.svg());
    assert!(
        found.contains("has 14 rows in its panel \"Fashion (small)\", expected one for each of 15"),
        "{found}"
    );
    let found = error(MethodDots { panels: Vec::new(), ..dots() }.svg());
    assert!(found.contains("has 0 panels, expected 1 to 6"), "{found}");
    let found = error(MethodDots { columns: 4, ..dots() }.svg());
    assert!(found.contains("has 4 columns of panels, expected 1 to 3"), "{found}");
    assert!(
        error(MethodDots { highlighted: Some(15), ..dots() }.svg()).contains("highlights method 15 of 15")
    );
    let mut figure = lines(4);
    figure.panels[0].lines[0].points.pop();
    assert!(error(figure.svg()).contains("a line of 3 points in its panel \"MNIST (small)\", expected 4"));
    let mut figure = lines(4);
    figure.panels[0].lines[0].method = 4;
    assert!(error(figure.svg()).contains("a line of method 4 of 4"));
    let mut figure = lines(4);
    figure.x.reverse();
    assert!(error(figure.svg()).contains("not finite and ascending"));
    let mut figure = reliability(2);
    figure.rows[1].cells.pop();
    assert!(
        error(figure.svg()).contains("has 1 cells in its row \"MNIST (large)\", expected one for each of 2")
    );
}
