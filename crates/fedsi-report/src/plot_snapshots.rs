//! What every plot is made of, kept as text: kinds of elements, how many of each, and all words. Places and sizes are
//! left out, because a better layout is no fault.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use fedsi_fl::client::Predictions;
use fedsi_fl::scores::Scores;
use fedsi_run::ClientScores;
use fedsi_run::report_data::{
    ForeignEntropies, ReportData, Sample, SampleKind, Selection, SelectionMap, TensorSelection,
};
use serde_json::json;

use crate::RunFiles;
use crate::comparison::comparison_page;
use crate::method_runs::{Calibration, MethodRuns};
use crate::run_page::run_page;

/// A run of three clients written by hand, so that no training decides what is drawn.
fn run(predictions: Predictions, report_data: ReportData) -> RunFiles {
    let each = predictions.len() / 3;
    let owners: Vec<usize> = (0..3).flat_map(|client| std::iter::repeat_n(client, each)).collect();
    let part = |client: usize| -> Scores {
        let rows = client * each..(client + 1) * each;
        match &predictions {
            Predictions::Classes { classes, probabilities, labels } => Predictions::Classes {
                classes: *classes,
                probabilities: probabilities[rows.start * classes..rows.end * classes].to_vec(),
                labels: labels[rows].to_vec(),
            },
            Predictions::Values { outputs, mean, variance, targets } => Predictions::Values {
                outputs: *outputs,
                mean: mean[rows.clone()].to_vec(),
                variance: variance[rows.clone()].to_vec(),
                targets: targets[rows].to_vec(),
            },
        }
        .scores()
    };
    let clients: Vec<ClientScores> = (0..3)
        .map(|id| ClientScores {
            id,
            name: None,
            samples: each,
            problem: None,
            novel: false,
            scores: part(id),
        })
        .collect();
    let mut summary = json!({
        "method": "fedsi", "dataset": "digits", "size": "small", "seed": 1, "rounds": 4, "clients": clients,
        "posterior": { "parameters": 6.0, "zero_curvature": 0.1, "rank": 3.0, "certificate": 0.0, "prior_variance": 0.5,
            "variance": 0.25 },
        "seconds": { "train": 2.0, "posterior": 1.0, "evaluate": 0.5, "total": 3.75 },
        "bytes": { "up": 4000, "down": 3000 }, "peak_rss_bytes": null, "version": "0.0.0",
    });
    let scores = serde_json::to_value(predictions.scores()).unwrap();
    summary.as_object_mut().unwrap().extend(scores.as_object().unwrap().clone());
    let rounds = (1..=4).map(|round| {
        json!({
            "round": round, "train_loss": 1.0 / f64::from(round), "participants": [0, 1, 2], "left_out": [],
            "validation": { "samples": 5, "accuracy": 0.2 * f64::from(round) },
            "subnetwork": { "overlap": 0.5, "zero_curvature": 0.1, "mean_variance": 0.3, "rank": 3.0, "certificate": 0.0 },
            "seconds": { "train": 0.5, "posterior": 0.25, "aggregate": 0.0 }, "bytes": { "up": 1000, "down": 750 },
        })
    });
    RunFiles {
        summary: serde_json::from_value(summary).unwrap(),
        rounds: rounds.map(|record| serde_json::from_value(record).unwrap()).collect(),
        config: "seed = 1\n".to_owned(),
        predictions,
        owners,
        report_data: Some(report_data),
        data: None,
        ood: None,
    }
}

fn classification() -> RunFiles {
    let (mut probabilities, mut labels) = (Vec::new(), Vec::new());
    for row in 0..60_u16 {
        let sure = 0.35 + 0.01 * f32::from(row);
        probabilities.extend([sure, 0.75 * (1.0 - sure), 0.25 * (1.0 - sure)]);
        labels.push(u32::from(row % 4 == 0));
    }
    let sample = |kind| Sample {
        strangeness: Some(1.25),
        client: 1,
        index: 3,
        kind,
        label: 1,
        probabilities: vec![0.5, 0.25, 0.25],
        pixels: vec![0, 80, 160, 255],
        id: None,
        row: None,
        cells: Vec::new(),
    };
    let report_data = ReportData {
        classes: ["ant", "bee", "cat"].map(str::to_owned).into(),
        train: vec![vec![5, 0, 5], vec![0, 9, 1], vec![3, 3, 4]],
        test: vec![vec![20, 0, 0]; 3],
        image: Some([1, 2, 2]),
        columns: Vec::new(),
        samples: vec![sample(SampleKind::LeastCertain), sample(SampleKind::ConfidentlyWrong)],
        foreign: vec![ForeignEntropies { client: 0, entropies: vec![0.9, 1.0] }],
        selection: Some(Selection {
            clients: 3,
            tensors: vec![TensorSelection { tensor: "0.weight".to_owned(), chosen: 6.0, of: 12 }],
            map: Some(SelectionMap { height: 2, width: 2, shares: vec![0.5, 0.25, 0.0, 1.0] }),
        }),
    };
    run(Predictions::Classes { classes: 3, probabilities, labels }, report_data)
}

fn regression() -> RunFiles {
    let mean: Vec<f64> = (0..180).map(f64::from).collect();
    let variance: Vec<f64> = (0..180).map(|row| 1.0 + f64::from(row % 7)).collect();
    let targets = mean.iter().enumerate().map(|(row, mean)| mean + (row % 5) as f64 - 2.0).collect();
    let report_data =
        ReportData { train: vec![vec![10]; 3], test: vec![vec![60]; 3], ..ReportData::default() };
    run(Predictions::Values { outputs: 1, mean, variance, targets }, report_data)
}

/// Eight methods on two seeds, so that colours come twice, with scores of that kind; the last has no runs.
fn compared(is_classes: bool) -> (fedsi_compare::Comparison, Vec<MethodRuns>) {
    let metric = |key: &str, title: &str, direction: &str, is_share: bool| json!({ "key": key, "title": title, "direction": direction, "is_share": is_share, "shown": true, "tested": true });
    let (main, scores) = if is_classes {
        let scores =
            json!({ "accuracy": 0.9, "ece": 0.1, "mce": 0.1, "brier": 0.1, "nll": 0.3, "mce_1pct": 0.1 });
        (metric("accuracy", "accuracy", "higher", true), scores)
    } else {
        let scores = json!({ "rmse": 0.9, "mae": 0.1, "nll": 0.3, "coverage_50": 0.5, "coverage_80": 0.8,
            "coverage_90": 0.9, "coverage_95": 0.95 });
        (metric("rmse", "RMSE", "lower", false), scores)
    };
    let method = |place: usize| {
        let standing = |mean: f64| {
            let against = if place == 0 { [0, 0, 0] } else { [2, 1, 5] };
            let step = 0.01 * place as f64;
            let difference =
                json!({ "mean": step, "interval": [step - 0.015, step + 0.015], "p": 0.03, "p_holm": 0.03 });
            json!({ "mean": mean, "std": 0.01, "rank": place + 1, "difference": (place > 0).then_some(difference),
                "against_reference": { "wins": against[0], "ties": against[1], "losses": against[2] } })
        };
        let run = |seed: u64| {
            json!({ "seed": seed, "folder": format!("m{place}-s{seed}"), "scores": scores, "seconds": 3.0 + place as f64,
                "bytes": { "up": 1_000_000 * place, "down": 2_000_000 }, "peak_rss_bytes": null })
        };
        let runs: Vec<_> = (1..=2).map(run).collect();
        let standings = json!({ main["key"].as_str().unwrap(): standing(0.9 - 0.02 * place as f64),
            "nll": standing(0.3 + 0.05 * place as f64) });
        let is_there = place < 7;
        json!({ "name": format!("m{place}"), "title": format!("Method {place}"), "source": "", "evaluated": "",
            "runs": if is_there { runs } else { Vec::new() }, "failures": [],
            "metrics": if is_there { standings } else { json!({}) } })
    };
    let comparison = json!({ "dataset": "digits", "size": "small", "seeds": [1, 2], "rounds": 4, "jobs": 1, "version": "0", "reference": "m0",
        "metrics": [main, metric("nll", "NLL", "lower", false)], "methods": (0..8).map(method).collect::<Vec<_>>() });
    let method_runs = |place: usize| {
        let calibration = if is_classes {
            let Predictions::Classes { classes, probabilities, labels } = classification().predictions else {
                unreachable!()
            };
            let rows = fedsi_metrics::Predictions::new(&probabilities, &labels, classes).unwrap();
            let table = rows.reliability(fedsi_metrics::Bins::default());
            Calibration::Reliability { bins: table.bins().collect(), ece: 0.125, floor: 0.03125 }
        } else {
            Calibration::Coverage { points: vec![(0.25, 0.3), (0.5, 0.5), (0.75, 0.7)], inside: 0.875 }
        };
        let points = |from: f64| (1..=4).map(|round| (f64::from(round), from / f64::from(round))).collect();
        MethodRuns {
            loss: points(1.0 + place as f64),
            held_out: points(0.5),
            calibration: Some(calibration),
            runs: 2,
            unread: Vec::new(),
        }
    };
    let mut all: Vec<MethodRuns> = (0..7).map(method_runs).collect();
    all.push(MethodRuns::default());
    (serde_json::from_value(comparison).unwrap(), all)
}

/// Kinds of elements with their counts, then all words.
fn structure(svg: &str) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut words = Vec::new();
    for part in svg.split('<').skip(1).filter(|part| !part.starts_with('/')) {
        let kind = part.split([' ', '>', '\n']).next().unwrap_or_default();
        *kinds.entry(kind).or_default() += 1;
        if kind == "text" {
            words.push(part.split_once('>').map_or("", |(_, text)| text.trim()));
        }
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    format!("{}\n{}", kinds.join(", "), words.join(" | "))
}

#[test]
fn plots_are_made_of_what_was_agreed() {
    let mut text = String::new();
    for (title, files) in [("classification", classification()), ("regression", regression())] {
        for plot in run_page(&files).unwrap().plots {
            writeln!(text, "{title}: {}\n{}\n", plot.name, structure(&plot.svg)).unwrap();
        }
    }
    for (title, is_classes) in [("comparison of classifications", true), ("comparison of regressions", false)]
    {
        let (comparison, method_runs) = compared(is_classes);
        let plots = comparison_page(&comparison, &method_runs).unwrap().plots;
        // One small diagram stands for all.
        let small = |name: &str| name.ends_with("-m0") || !name.contains("-m");
        for plot in plots.iter().filter(|plot| small(&plot.name)) {
            writeln!(text, "{title}: {}\n{}\n", plot.name, structure(&plot.svg)).unwrap();
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/plots.txt");
    if std::env::var_os("FEDSI_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "plots differ from {}.\nIf they are right: FEDSI_UPDATE_SNAPSHOTS=1 cargo test -p fedsi-report, and look at the \
         difference before you commit it.\n--- new ---\n{text}",
        path.display()
    );
}

#[test]
fn every_plot_that_follows_the_client_has_a_place_for_it() {
    for (files, live) in [(classification(), 4), (regression(), 4)] {
        let page = run_page(&files).unwrap().page;
        assert_eq!(page.matches("data-panels=").count(), live);
        assert_eq!(page.matches("class=\"pooled\"").count(), live);
        assert_eq!(page.matches("class=\"chosen\"").count(), live);
    }
}

#[test]
fn equal_runs_give_equal_pages() {
    let [one, other] = [run_page(&classification()).unwrap(), run_page(&classification()).unwrap()];
    assert_eq!(one.page, other.page);
    assert!(one.plots.iter().zip(&other.plots).all(|(a, b)| a.svg == b.svg && a.png == b.png));
}
