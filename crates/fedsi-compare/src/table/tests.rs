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
    let metric_results = metric_results(&kinds, &methods, Some(1)).into_iter().zip(standings(&methods));
    let titles = ["FedOne", "Fed_Two & Co", "a|b, \"c\""];
    let results =
        titles.iter().zip(methods).zip(metric_results).map(|((title, runs), (metric_results, standing))| {
            MethodResult {
                name: title.to_lowercase(),
                title: (*title).to_owned(),
                source: String::new(),
                evaluated: String::new(),
                external: None,
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
                        seconds: Some(run.seconds.total),
                        bytes: Some(run.bytes),
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
        reference: Some("fed_two & co".to_owned()),
        columns: Vec::new(),
        missing: Vec::new(),
        tuning: None,
        methods: results.collect(),
    }
}

#[test]
fn plain_text() {
    let expected = "\
method                                    accuracy %                NLL     MB
FedOne                                  90.00 ± 1.58 +  0.3000 ± 0.0071 *  3.0
Fed_Two & Co                            92.00 ± 2.00 *  0.4000 ± 0.0000 +  3.0
a|b, \"c\" (4 of 5 runs, 4 of 8 clients)  99.00 ± 0.00 -  0.1000 ± 0.0000 -  3.0

* best, + second best, - not ranked; as observed, which tests nothing
mean ± standard deviation over 5 seeds (1 to 5)
MB: up and down together, a run
not ranked: a|b, \"c\": it has no complete run with seed 5; 4 of 8 clients scored
  over all its runs, accuracy 99.00% over those, 45.00% if the others count as
  wrong

differences from Fed_Two & Co:

score     method        difference        95% interval  p (Holm)  bootstrap 95%
accuracy  FedOne             -2.00      [-2.88, -1.12]     0.003              -
NLL       FedOne  -0.1000 (-25.0%)  [-0.1088, -0.0912]    <0.001              -

difference: the method's score less Fed_Two & Co's, paired by seed, mean over
  seeds, and as a share of Fed_Two & Co's; of accuracy in percentage points
above 0 is better by accuracy; below 0 is better by NLL
95% interval: Student's, paired over seeds, each with clients of its own, not
  corrected for the number of methods; bootstrap: seeds and clients within them
  resampled; a dash: the same difference on every seed, or no predictions
p: paired two-sided t-test over seeds, after Holm's correction for the methods
  tested by a score
on the page and in compare.json: clients better / worse
";
    assert_eq!(comparison().render(Format::Plain), expected);
}

#[test]
fn markdown() {
    let expected = "\
| method | accuracy % | NLL | seconds | MB |
|:---|---:|---:|---:|---:|
| FedOne | *90.00 ± 1.58* | **0.3000 ± 0.0071** | 4.0 | 3.0 |
| Fed\\_Two & Co | **92.00 ± 2.00** | *0.4000 ± 0.0000* | 4.0 | 3.0 |
| a\\|b, \"c\" (4 of 5 runs, 4 of 8 clients) | 99.00 ± 0.00 – | 0.1000 ± 0.0000 – | 4.0 | 3.0 |

**Bold**: best; *italic*: second best; –: not ranked; as observed, which tests nothing. mean ± standard deviation over 5 seeds (1 to 5). seconds: wall clock of a run, with 2 runs side by side; MB: up and down together, a run. not ranked: a\\|b, \"c\": it has no complete run with seed 5; 4 of 8 clients scored over all its runs, accuracy 99.00% over those, 45.00% if the others count as wrong.

differences from Fed\\_Two & Co:

| score | method | difference | 95% interval | p (Holm) | bootstrap 95% | clients better / worse |
|:---|:---|---:|---:|---:|---:|---:|
| accuracy | FedOne | -2.00 | \\[-2.88, -1.12\\] | 0.003 | - | 0 / 0 |
| NLL | FedOne | -0.1000 (-25.0%) | \\[-0.1088, -0.0912\\] | \\<0.001 | - | 0 / 0 |

";
    let text = comparison().render(Format::Markdown);
    assert!(text.starts_with(expected), "{text}");
    assert!(text.trim_end().ends_with("tested by a score."), "{text}");
}

#[test]
fn latex() {
    let text = comparison().render(Format::Latex);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("% ")).collect();
    let expected = [
        "\\begin{tabular}{lrrrr}",
        "\\toprule",
        "method & accuracy \\% & NLL & seconds & MB \\\\",
        "\\midrule",
        "FedOne & \\underline{90.00 $\\pm$ 1.58} & \\textbf{0.3000 $\\pm$ 0.0071} & 4.0 & 3.0 \\\\",
        "Fed\\_Two \\& Co & \\textbf{92.00 $\\pm$ 2.00} & \\underline{0.4000 $\\pm$ 0.0000} & 4.0 & 3.0 \\\\",
        "a|b, \"c\" (4 of 5 runs, 4 of 8 clients) & 99.00 $\\pm$ 0.00 -- & 0.1000 $\\pm$ 0.0000 -- & 4.0 & 3.0 \\\\",
        "\\bottomrule",
        "\\end{tabular}",
        "\\begin{tabular}{llrrrrr}",
        "\\toprule",
        "score & method & difference & 95\\% interval & p (Holm) & bootstrap 95\\% & clients better / worse \\\\",
        "\\midrule",
        "accuracy & FedOne & -2.00 & [-2.88, -1.12] & 0.003 & - & 0 / 0 \\\\",
        "NLL & FedOne & -0.1000 (-25.0\\%) & [-0.1088, -0.0912] & $<$0.001 & - & 0 / 0 \\\\",
        "\\bottomrule",
        "\\end{tabular}",
    ];
    assert_eq!(lines, expected);
    assert!(text.starts_with("% \\usepackage{booktabs}\n"));
}

#[test]
fn ece_stands_beside_its_floor_and_few_seeds_have_no_interval() {
    let mut comparison = comparison();
    let ece = Metric {
        key: "ece".to_owned(),
        title: "ECE".to_owned(),
        direction: Direction::Lower,
        is_share: false,
        shown: true,
        tested: true,
    };
    let above = Difference {
        mean: 0.0042,
        relative: None,
        interval: Some([0.001, 0.0074]),
        p: Some(0.01),
        p_holm: Some(0.02),
        bootstrap: Some([0.0, 0.1]),
    };
    let result = MetricResult {
        mean: Some(0.0061),
        std: Some(0.0008),
        floor: Some(0.0019),
        above_floor: Some(above),
        ..MetricResult::default()
    };
    comparison.metrics.push(ece);
    comparison.methods[1].metrics.insert("ece".to_owned(), result);
    let text = comparison.render(Format::Plain);
    let heading = text.lines().next().unwrap();
    assert!(
        heading.contains("ECE") && heading.contains("floor") && text.contains("0.0061 ± 0.0008  0.0019"),
        "{text}"
    );
    let row = "ECE over floor  Fed_Two & Co           +0.0042  [+0.0010, +0.0074]     0.020";
    assert!(text.contains(row), "{text}");
    let csv = comparison.render(Format::Csv);
    assert!(csv.contains("ece_floor,ece_over_floor_difference,ece_over_floor_low,"), "{csv}");
    // An interval of the bootstrap over few seeds is too narrow to be shown.
    comparison.seeds.truncate(4);
    comparison.methods.iter_mut().for_each(|method| method.runs.truncate(4));
    let few = comparison.table(Columns::Usual).differences.unwrap();
    assert_eq!(few.heading, ["score", "method", "difference", "clients better / worse"]);
    assert!(few.rows.iter().all(|row| row.len() == 4), "{few:?}");
    assert_eq!(few.notes[2], "4 seeds: no interval and no test, which need 5");
}

#[test]
fn csv_reads_back() {
    let text = comparison().render(Format::Csv);
    let mut lines = csv::Reader::from_reader(text.as_bytes());
    let heading: Vec<String> = lines.headers().unwrap().iter().map(str::to_owned).collect();
    assert_eq!(heading[..5], ["method", "title", "runs", "accuracy_mean", "accuracy_std"]);
    assert_eq!(
        heading[heading.len() - 7..],
        ["seconds", "bytes_up", "bytes_down", "scored_clients", "tested_clients", "unranked", "external"]
    );
    let rows: Vec<csv::StringRecord> = lines.records().map(Result::unwrap).collect();
    let cell = |row: usize, name: &str| &rows[row][heading.iter().position(|found| found == name).unwrap()];
    assert_eq!([cell(2, "title"), cell(2, "runs"), cell(2, "accuracy_rank")], ["a|b, \"c\"", "4", ""]);
    assert_eq!(
        rows[2].iter().skip(heading.len() - 4).collect::<Vec<_>>(),
        ["4", "8", "it has no complete run with seed 5", "false"]
    );
    assert!((cell(1, "accuracy_mean").parse::<f64>().unwrap() - 0.92).abs() < 1e-15);
    assert_eq!([cell(0, "accuracy_rank"), cell(0, "reference"), cell(1, "nll_p")], ["2", "fed_two & co", ""]);
    let number = |name: &str| cell(0, name).parse::<f64>().unwrap();
    assert!((number("accuracy_difference") + 0.02).abs() < 1e-12);
    assert!((number("nll_relative") + 0.25).abs() < 1e-12);
    assert!(number("accuracy_low") < number("accuracy_difference") && number("accuracy_high") < 0.0);
    assert!(number("nll_p") < 0.001 && number("nll_p_holm") < 0.001);
    assert_eq!([cell(0, "accuracy_bootstrap_low"), cell(0, "accuracy_clients_equal")], ["", "10"]);
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
