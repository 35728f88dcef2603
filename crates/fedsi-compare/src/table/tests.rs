//! The four formats, letter by letter.

use super::*;
use crate::comparison::{Failure, RunResult};
use crate::statistics::tests::{run, scores};
use crate::statistics::{metric_results, metrics};

/// Three methods; the last failed once, and its name needs care in every format.
fn comparison() -> Comparison {
    let methods = [
        vec![run(1, scores(0.89, 0.3), &[]), run(2, scores(0.91, 0.3), &[])],
        vec![run(1, scores(0.90, 0.4), &[]), run(2, scores(0.94, 0.4), &[])],
        vec![run(1, scores(0.99, 0.1), &[])],
    ];
    let kinds: Vec<Metric> = metrics(&methods[0][0].scores);
    let wanted = ["accuracy", "nll"];
    let kinds: Vec<Metric> = kinds.into_iter().filter(|kind| wanted.contains(&kind.key.as_str())).collect();
    let metric_results = metric_results(&kinds, &methods);
    let titles = ["FedOne", "Fed_Two & Co", "a|b, \"c\""];
    let results =
        titles.iter().zip(methods).zip(metric_results).map(|((title, runs), metric_results)| MethodResult {
            name: title.to_lowercase(),
            title: (*title).to_owned(),
            source: String::new(),
            evaluated: String::new(),
            failures: (runs.len() < 2)
                .then(|| Failure { seed: 2, reason: "lost".to_owned() })
                .into_iter()
                .collect(),
            runs: runs
                .into_iter()
                .map(|run| RunResult {
                    seed: run.seed,
                    folder: String::new(),
                    scores: run.scores,
                    seconds: run.seconds.total,
                    bytes: run.bytes,
                    peak_rss_bytes: None,
                })
                .collect(),
            metrics: metric_results,
            tuned: std::collections::BTreeMap::new(),
            trials: Vec::new(),
        });
    Comparison {
        dataset: "digits".to_owned(),
        size: "small".to_owned(),
        seeds: vec![1, 2],
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
method                    accuracy %                NLL    p accuracy   p NLL  seconds   MB
FedOne                  90.00 ± 1.41 +  0.3000 ± 0.0000 *       0.295       -      4.0  3.0
Fed_Two & Co            92.00 ± 2.83 *  0.4000 ± 0.0000 +           -  <0.001      4.0  3.0
a|b, \"c\" (1 of 2 runs)         99.00             0.1000             -       -      4.0  3.0

* best, + second best
mean ± standard deviation over 2 seeds (1 to 2)
p: paired two-sided t-test over seeds against the best of that score; with few seeds the test has little power
seconds: wall clock of a run, with 2 runs side by side; MB: up and down together, a run
a method that lacks runs has no rank
";
    assert_eq!(comparison().render(Format::Plain), expected);
}

#[test]
fn markdown() {
    let expected = "\
| method | accuracy % | NLL | p accuracy | p NLL | seconds | MB |
|:---|---:|---:|---:|---:|---:|---:|
| FedOne | *90.00 ± 1.41* | **0.3000 ± 0.0000** | 0.295 | - | 4.0 | 3.0 |
| Fed\\_Two & Co | **92.00 ± 2.83** | *0.4000 ± 0.0000* | - | \\<0.001 | 4.0 | 3.0 |
| a\\|b, \"c\" (1 of 2 runs) | 99.00 | 0.1000 | - | - | 4.0 | 3.0 |

**Bold**: best; *italic*: second best. mean ± standard deviation over 2 seeds (1 to 2). p: paired two-sided t-test over seeds against the best of that score; with few seeds the test has little power. seconds: wall clock of a run, with 2 runs side by side; MB: up and down together, a run. a method that lacks runs has no rank.
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
        "FedOne & \\underline{90.00 $\\pm$ 1.41} & \\textbf{0.3000 $\\pm$ 0.0000} & 0.295 & - & 4.0 & 3.0 \\\\",
        "Fed\\_Two \\& Co & \\textbf{92.00 $\\pm$ 2.83} & \\underline{0.4000 $\\pm$ 0.0000} & - & $<$0.001 & 4.0 & 3.0 \\\\",
        "a|b, \"c\" (1 of 2 runs) & 99.00 & 0.1000 & - & - & 4.0 & 3.0 \\\\",
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
    assert_eq!(heading[heading.len() - 3..], ["seconds", "bytes_up", "bytes_down"]);
    let rows: Vec<csv::StringRecord> = lines.records().map(Result::unwrap).collect();
    assert_eq!((&rows[2][1], &rows[2][2], &rows[2][5]), ("a|b, \"c\"", "1", ""));
    assert_eq!(rows[1][3].parse::<f64>().unwrap(), f64::midpoint(0.90, 0.94));
    assert_eq!(&rows[0][5], "2");
}

#[test]
fn it_reads_back_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let written = comparison();
    written.write(folder.path()).unwrap();
    assert_eq!(Comparison::read(folder.path()).unwrap(), written);
    assert_eq!(written.failures(), ["a|b, \"c\" seed 2: lost"]);
}
