//! The four formats, letter by letter.

use fedsi_run::Summary;

use super::*;
use crate::comparison::{Failure, RunResult};
use crate::standing::standings;
use crate::statistics::tests::{run, scores};
use crate::statistics::{metric_results, metrics};

/// Three methods over five seeds; the last was not scored on one client and failed once, and its name needs care in
/// every format.
fn comparison() -> Comparison {
    let method = |accuracy: [f64; 5], nll: [f64; 5], clients: &[f64]| -> Vec<Summary> {
        let runs = (1..).zip(accuracy.into_iter().zip(nll));
        runs.map(|(seed, (accuracy, nll))| run(seed, scores(accuracy, nll), clients)).collect()
    };
    let all = [0.9, 0.9];
    let mut methods = [
        method([0.88, 0.89, 0.90, 0.91, 0.92], [0.3, 0.31, 0.29, 0.3, 0.3], &all),
        method([0.90, 0.90, 0.92, 0.94, 0.94], [0.4; 5], &all),
        method([0.99; 5], [0.1; 5], &[0.9, f64::NAN]),
    ];
    methods[2].pop();
    let kinds: Vec<Metric> = metrics(&methods[0][0].scores);
    let wanted = ["accuracy", "nll"];
    let kinds: Vec<Metric> = kinds.into_iter().filter(|kind| wanted.contains(&kind.key.as_str())).collect();
    let metric_results = metric_results(&kinds, &methods).into_iter().zip(standings(&methods));
    let titles = ["FedOne", "Fed_Two & Co", "a|b, \"c\""];
    let results =
        titles.iter().zip(methods).zip(metric_results).map(|((title, runs), (metric_results, standing))| {
            MethodResult {
                name: title.to_lowercase(),
                title: (*title).to_owned(),
                source: String::new(),
                evaluated: String::new(),
                failures: (runs.len() < 5)
                    .then(|| Failure { seed: 5, reason: "lost".to_owned() })
                    .into_iter()
                    .collect(),
                runs: runs
                    .into_iter()
                    .map(|run| RunResult {
                        seed: run.seed,
                        folder: String::new(),
                        scores: run.scores,
                        coverage: Some(run.coverage()),
                        seconds: run.seconds.total,
                        bytes: run.bytes,
                        peak_rss_bytes: None,
                    })
                    .collect(),
                standing,
                metrics: metric_results,
                tuned: std::collections::BTreeMap::new(),
                trials: Vec::new(),
            }
        });
    Comparison {
        dataset: "digits".to_owned(),
        size: "small".to_owned(),
        seeds: vec![1, 2, 3, 4, 5],
        rounds: 2,
        jobs: 2,
        version: "0".to_owned(),
        metrics: kinds,
        tuning: None,
        methods: results.collect(),
    }
}

#[test]
fn plain_text() {
    let expected = "\
method                                    accuracy %                NLL    p accuracy   p NLL  seconds   MB
FedOne                                  90.00 ± 1.58 +  0.3000 ± 0.0071 *       0.003       -      4.0  3.0
Fed_Two & Co                            92.00 ± 2.00 *  0.4000 ± 0.0000 +           -  <0.001      4.0  3.0
a|b, \"c\" (4 of 5 runs, 4 of 8 clients)  99.00 ± 0.00 -  0.1000 ± 0.0000 -           -       -      4.0  3.0

* best, + second best, - not ranked
mean ± standard deviation over 5 seeds (1 to 5)
p: paired two-sided t-test over seeds against the best of that score; a dash: the best itself, no rank, or the same difference on every seed
seconds: wall clock of a run, with 2 runs side by side; MB: up and down together, a run
not ranked: a|b, \"c\": it has no complete run with seed 5; 4 of 8 clients scored over all its runs, accuracy 99.00% over those, 45.00% if the others count as wrong
";
    assert_eq!(comparison().render(Format::Plain), expected);
}

#[test]
fn markdown() {
    let expected = "\
| method | accuracy % | NLL | p accuracy | p NLL | seconds | MB |
|:---|---:|---:|---:|---:|---:|---:|
| FedOne | *90.00 ± 1.58* | **0.3000 ± 0.0071** | 0.003 | - | 4.0 | 3.0 |
| Fed\\_Two & Co | **92.00 ± 2.00** | *0.4000 ± 0.0000* | - | \\<0.001 | 4.0 | 3.0 |
| a\\|b, \"c\" (4 of 5 runs, 4 of 8 clients) | 99.00 ± 0.00 – | 0.1000 ± 0.0000 – | - | - | 4.0 | 3.0 |

**Bold**: best; *italic*: second best; –: not ranked. mean ± standard deviation over 5 seeds (1 to 5). p: paired two-sided t-test over seeds against the best of that score; a dash: the best itself, no rank, or the same difference on every seed. seconds: wall clock of a run, with 2 runs side by side; MB: up and down together, a run. not ranked: a\\|b, \"c\": it has no complete run with seed 5; 4 of 8 clients scored over all its runs, accuracy 99.00% over those, 45.00% if the others count as wrong.
";
    assert_eq!(comparison().render(Format::Markdown), expected);
}

#[test]
fn latex() {
    let text = comparison().render(Format::Latex);
    let lines: Vec<&str> = text.lines().take(10).collect();
    let expected = [
        "% \\usepackage{booktabs}",
        "\\begin{tabular}{lrrrrrr}",
        "\\toprule",
        "method & accuracy \\% & NLL & p accuracy & p NLL & seconds & MB \\\\",
        "\\midrule",
        "FedOne & \\underline{90.00 $\\pm$ 1.58} & \\textbf{0.3000 $\\pm$ 0.0071} & 0.003 & - & 4.0 & 3.0 \\\\",
        "Fed\\_Two \\& Co & \\textbf{92.00 $\\pm$ 2.00} & \\underline{0.4000 $\\pm$ 0.0000} & - & $<$0.001 & 4.0 & 3.0 \\\\",
        "a|b, \"c\" (4 of 5 runs, 4 of 8 clients) & 99.00 $\\pm$ 0.00 -- & 0.1000 $\\pm$ 0.0000 -- & - & - & 4.0 & 3.0 \\\\",
        "\\bottomrule",
        "\\end{tabular}",
    ];
    assert_eq!(lines, expected);
    assert!(text.lines().skip(10).all(|line| line.starts_with("% ")), "{text}");
}

#[test]
fn csv_reads_back() {
    let text = comparison().render(Format::Csv);
    let mut lines = csv::Reader::from_reader(text.as_bytes());
    let heading: Vec<String> = lines.headers().unwrap().iter().map(str::to_owned).collect();
    assert_eq!(heading[..5], ["method", "title", "runs", "accuracy_mean", "accuracy_std"]);
    assert_eq!(
        heading[heading.len() - 6..],
        ["seconds", "bytes_up", "bytes_down", "scored_clients", "tested_clients", "unranked"]
    );
    let rows: Vec<csv::StringRecord> = lines.records().map(Result::unwrap).collect();
    assert_eq!((&rows[2][1], &rows[2][2], &rows[2][5]), ("a|b, \"c\"", "4", ""));
    assert_eq!(
        rows[2].iter().skip(heading.len() - 3).collect::<Vec<_>>(),
        ["4", "8", "it has no complete run with seed 5"]
    );
    assert!((rows[1][3].parse::<f64>().unwrap() - 0.92).abs() < 1e-15);
    assert_eq!(&rows[0][5], "2");
}

#[test]
fn it_reads_back_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let written = comparison();
    written.write(folder.path()).unwrap();
    assert_eq!(Comparison::read(folder.path()).unwrap(), written);
    assert_eq!(written.failures(), ["a|b, \"c\" seed 5: lost"]);
}

#[test]
fn hostile_names_stay_names() {
    let mut comparison = comparison();
    comparison.methods[0].title = "=HYPERLINK(\"x\")".to_owned();
    comparison.methods[1].title = format!("a\nb{}", "c".repeat(70_000));
    let csv = comparison.render(Format::Csv);
    assert!(csv.contains(",\"'=HYPERLINK(\"\"x\"\")\",") && csv.contains(&"c".repeat(70_000)), "{csv}");
    for format in [Format::Plain, Format::Markdown, Format::Latex] {
        let text = comparison.render(format);
        assert!(text.contains("a bccc") && text.contains('…') && text.len() < 5_000, "{text}");
    }
}
