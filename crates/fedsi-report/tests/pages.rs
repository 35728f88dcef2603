//! Pages of real runs and comparisons, small and odd ones, made by the library from end to end.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fedsi_compare::{CompareSpec, Comparison};
use fedsi_data::{PartitionKind, Size, TaskKind};
use fedsi_fl::Config;
use fedsi_run::{RunFolder, run};

/// What a page may weigh.
const MAX_BYTES: usize = 2_000_000;

/// Digits by the handful, for one round.
fn digits(method: &str, clients: usize) -> Config {
    let mut config = Config::defaults(method, "digits", Size::Small).unwrap();
    config.rounds = 1;
    config.training.epochs = 1;
    config.federation.participants = 0;
    config.tuning.epochs = 1;
    config.partition.clients = clients;
    (config.partition.train, config.partition.test) = (4, 6);
    config
}

/// A table of `sites` with a target that follows its two features. The last site has no test rows.
fn table(folder: &Path, sites: usize, target: impl Fn(f64, f64) -> String) -> Config {
    let rows = |count: usize, sites: usize| {
        let mut text = "a,b,site,target\n".to_owned();
        for row in 0..count * sites {
            let (a, b) = ((1.3 * row as f64).sin(), (0.7 * row as f64 + 1.0).cos());
            writeln!(text, "{a},{b},site {},{}", row % sites, target(a, b)).unwrap();
        }
        text
    };
    fs::write(folder.join("train.csv"), rows(30, sites)).unwrap();
    fs::write(folder.join("test.csv"), rows(40, sites - 1)).unwrap();
    let mut config = Config::defaults("fedsi", "files", Size::Small).unwrap();
    config.rounds = 2;
    config.federation.participants = 0;
    config.partition.kind = PartitionKind::Natural;
    let files = &mut config.data.files;
    (files.train, files.test) = (folder.join("train.csv"), folder.join("test.csv"));
    files.client = "site".to_owned();
    config
}

/// Runs, and returns the run's folder and page. A copy is left in the folder that `FEDSI_PAGES` names, for
/// `browser/check.mjs` to open.
fn page(name: &str, scratch: &Path, config: Config) -> (PathBuf, String) {
    let checked = config.check().unwrap();
    let folder = RunFolder::claim(&scratch.join("run"), false, &checked).unwrap();
    let path = folder.path().to_owned();
    let completed = run::run(&checked, folder, &mut (), fedsi_report::write_run).unwrap();
    let text = kept(name, &path, &completed.report.unwrap());
    (path, text)
}

/// A page that was made in this folder, once it is found sound and its copy is left.
fn kept(name: &str, folder: &Path, made: &Path) -> String {
    let text = fs::read_to_string(made).unwrap();
    sound(folder, &text);
    if let Some(folder) = std::env::var_os("FEDSI_PAGES") {
        fs::write(Path::new(&folder).join(format!("{name}.html")), &text).unwrap();
    }
    text
}

/// Methods on two seeds, with the settings that `of` gives a method.
fn comparison(scratch: &Path, methods: &str, of: &(dyn Fn(&str) -> Config + Sync)) -> (PathBuf, Comparison) {
    let spec = CompareSpec {
        methods: fedsi_compare::methods(methods).unwrap(),
        with: Vec::new(),
        columns: Vec::new(),
        given: Default::default(),
        seeds: 2,
        reference: None,
        tune: None,
        jobs: 1,
        out: Some(scratch.join("compare")),
        force: false,
        settings: &|last| {
            let find = |wanted: &str| last.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value);
            let mut config = of(find("method").and_then(|value| value.as_str()).unwrap());
            if let Some(seed) = find("seed") {
                config.seed = seed.as_integer().unwrap().try_into().unwrap();
            }
            config.check()
        },
    };
    let finished = fedsi_compare::compare(&spec, &(), &|_, _| Ok(())).unwrap();
    (finished.folder.path().to_owned(), finished.comparison)
}

/// A page without its end: the config there may hold an address, the script names the standard of SVG.
fn shown(page: &str) -> &str {
    page.split("<pre").next().unwrap().split("<script>").next().unwrap()
}

/// What holds for every page.
fn sound(folder: &Path, page: &str) {
    assert!(page.len() < MAX_BYTES, "{} bytes", page.len());
    let shown = shown(page);
    for word in ["NaN", ">inf<", ">-inf<", "Infinity", "http://", "https://"] {
        assert!(
            !shown.contains(word),
            "{word} after {:?}",
            shown.split(word).next().map(|text| &text[text.len() - 80..])
        );
    }
    let is_run = page.contains("id=\"clients\"");
    assert_eq!(page.matches("<script").count(), if is_run { 2 } else { 1 });
    assert_eq!(page.matches("<svg").count(), page.matches(" data-plot=\"").count());
    assert_eq!(
        page.matches("<svg").count(),
        page.matches("role=\"img\" aria-label=\"").count(),
        "a plot without a name"
    );
    assert!(page.contains("<b>Good:</b>"));
    for entry in fs::read_dir(folder.join("plots")).unwrap() {
        let path = entry.unwrap().path();
        assert!(fs::metadata(&path).unwrap().len() > 300, "{}", path.display());
        if path.extension().is_some_and(|kind| kind == "svg") {
            let text = fs::read_to_string(&path).unwrap();
            assert!(!text.contains("NaN") && !text.contains("inf"), "{}", path.display());
            assert!(path.with_extension("png").is_file());
        }
    }
}

#[test]
fn one_client() {
    let scratch = tempfile::tempdir().unwrap();
    let (folder, page) = page("one-client", scratch.path(), digits("fedsi", 1));
    assert!(page.contains("1 client, 1 round"));
    assert!(page.contains("Nobody else has samples of a class that a client has not seen"));
    assert!(page.contains("Least certain") && page.contains("data:image/png;base64,"));
    assert!(!folder.join("plots/clients.svg").exists(), "one dot is no plot");
}

#[test]
fn a_thousand_clients() {
    let scratch = tempfile::tempdir().unwrap();
    let (_, page) = page("thousand-clients", scratch.path(), digits("fedavg", 1000));
    assert_eq!(page.matches("<tr data-client=").count(), 1000);
    assert!(page.contains("The first 50 clients are"));
    assert!(page.contains("not of each"), "galleries of a thousand clients");
    assert!(page.contains("This method has no"), "fedavg has no posterior");
}

#[test]
fn a_client_without_test_data_and_two_classes() {
    let scratch = tempfile::tempdir().unwrap();
    let kind = |a: f64, b: f64| if a + b > 0.0 { "<b>sick</b>" } else { "well" }.to_owned();
    let mut config = table(scratch.path(), 3, kind);
    config.data.files.task = TaskKind::Classification;
    let (_, page) = page("two-classes", scratch.path(), config);
    assert!(page.contains("not scored: it has no test data"));
    assert!(page.contains("client 2 site 2"));
    // Every class in the confusion matrix, the baseline in words, and the data by its own name.
    assert!(page.contains("id=\"confusion\"") && page.contains("most frequent class"));
    assert!(!page.contains("FedSI on files"), "files is no name");
    assert!(
        page.contains("id=\"headline-client\"")
            && page.contains("95% intervals by resampling rows within each client")
    );
    assert!(!page.contains("<b>sick"), "a class's name is not escaped");
    assert!(!page.contains("<img"), "rows of a table are no images");
}

#[test]
fn regression() {
    let scratch = tempfile::tempdir().unwrap();
    let mut config = table(scratch.path(), 3, |a, b| (5.0 * a - 2.0 * b).to_string());
    config.data.files.task = TaskKind::Regression;
    let (folder, page) = page("regression", scratch.path(), config);
    assert!(page.contains("Coverage of intervals") && page.contains("RMSE"));
    assert!(!page.contains("Reliability"), "a regression has no confidence");
    for plot in ["interval-coverage", "residuals", "error-by-deviation", "partition", "seconds"] {
        assert!(folder.join(format!("plots/{plot}.png")).is_file(), "{plot}");
    }
}

/// A rare class that is never recognised is named at the top, with its recall.
#[test]
fn a_rare_class_is_not_lost_in_the_accuracy() {
    let scratch = tempfile::tempdir().unwrap();
    let kind = |a: f64, b: f64| if (50.0 * (a + 2.0 * b)).sin() > 0.99 { "rare" } else { "usual" }.to_owned();
    let mut config = table(scratch.path(), 3, kind);
    config.data.files.task = TaskKind::Classification;
    config.data.files.name = "ward 7".to_owned();
    let (folder, page) = page("rare-class", scratch.path(), config);
    assert!(page.contains("FedSI on ward 7"));
    assert!(page.contains("A class is recognised less often than the rest: rare ("), "{:?}", verdict(&page));
    assert!(page.contains("Not shown to be better than always answering a client"), "{:?}", verdict(&page));
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("summary.json")).unwrap()).unwrap();
    let (accuracy, majority) = (&summary["accuracy"], &summary["majority_accuracy"]);
    assert!((accuracy.as_f64().unwrap() - majority.as_f64().unwrap()).abs() < 0.05, "{accuracy} {majority}");
    assert_eq!(summary["confusion"].as_array().unwrap().len(), 2);
    for figure in ["accuracy", "balanced_accuracy", "ece", "nll", "brier", "aurc"] {
        let ends = &summary["intervals"][figure];
        let value = summary[figure].as_f64().unwrap();
        assert!(ends[0].as_f64().unwrap() <= value && value <= ends[1].as_f64().unwrap(), "{figure}: {ends}");
    }

    // Of a version that had no intervals, the page has them all the same.
    let mut old = summary.clone();
    for key in [
        "intervals",
        "intervals_by",
        "majority_accuracy",
        "worst_tenth_accuracy",
        "confusion",
        "overconfidence",
    ] {
        old.as_object_mut().unwrap().remove(key);
    }
    for class in old["classes"].as_array_mut().unwrap() {
        class
            .as_object_mut()
            .unwrap()
            .retain(|key, _| ["name", "samples", "precision", "recall"].contains(&key.as_str()));
    }
    fs::write(folder.join("summary.json"), old.to_string()).unwrap();
    let again = fs::read_to_string(fedsi_report::remake(&folder).unwrap()).unwrap();
    assert_eq!(verdict(&again), verdict(&page));
    assert!(again.contains("id=\"confusion\""));

    // What `fedsi ood` found is shown where it is there.
    let ood = r#"{"format": "fedsi-ood-1", "sets": [{"inputs": "<i>mnist</i>", "samples": 30, "accuracy": null,
        "auroc_strangeness": 0.987, "auroc_entropy": 0.654}]}"#;
    fs::write(folder.join("ood.json"), ood).unwrap();
    let with = fs::read_to_string(fedsi_report::remake(&folder).unwrap()).unwrap();
    assert!(with.contains("0.987") && with.contains("0.654") && !with.contains("<i>mnist"));
}

/// The sentences at the top of a page.
fn verdict(page: &str) -> Vec<&str> {
    let start = page.find("id=\"headline-all\"").unwrap();
    let top = &page[start..start + page[start..].find("<dl").unwrap()];
    top.split("<p class=\"verdict\">").skip(1).map(|line| line.split("</p>").next().unwrap()).collect()
}

#[test]
fn a_page_is_remade_from_the_folder_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let (folder, page) = page("digits", scratch.path(), digits("fedsi", 3));
    assert!(page.contains("data-plot=\"subnetwork-map\""), "no map of the first layer");
    assert!(page.contains("it has no right answer for them"), "nothing was unseen");
    let moved = scratch.path().join("elsewhere");
    fs::rename(&folder, &moved).unwrap();
    fs::remove_file(moved.join("report.html")).unwrap();
    fs::remove_dir_all(moved.join("plots")).unwrap();
    fedsi_report::remake(&moved).unwrap();
    assert_eq!(fs::read_to_string(moved.join("report.html")).unwrap(), page);

    // A run of an older version.
    fs::remove_file(moved.join("report_data.safetensors")).unwrap();
    fedsi_report::remake(&moved).unwrap();
    let older = fs::read_to_string(moved.join("report.html")).unwrap();
    sound(&moved, &older);
    assert!(older.contains("saved no report data"));
}

#[test]
fn posteriors_of_other_kinds() {
    for (method, sits, travels) in [
        ("pfedbayes", "In every layer", "twice the bytes"),
        ("fedpop", "In the head", "stay with their clients"),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        let (folder, page) = page(method, scratch.path(), digits(method, 3));
        assert!(page.contains(sits) && page.contains(travels), "{method}");
        assert!(!shown(&page).contains("subnetwork"), "{method} has none");
        let seconds = fs::read_to_string(folder.join("plots/seconds.svg")).unwrap();
        assert!(!seconds.contains("posteriors"), "{method} has no such phase");
    }
}

#[test]
fn a_comparison() {
    let scratch = tempfile::tempdir().unwrap();
    let settings = |method: &str| {
        let mut config = digits(method, 4);
        config.rounds = 2;
        config.partition.train = 20;
        config.validation.fraction = 0.2;
        config
    };
    let (folder, found) = comparison(scratch.path(), "fedsi,fedavg,fedper", &settings);
    let page = kept("comparison", &folder, &fedsi_report::write_comparison(&folder, &found).unwrap());
    found.write(&folder).unwrap();
    for words in [
        "3 methods on digits",
        "Accuracy: FedSI ",
        "NLL: FedSI ",
        "2 seeds are too few for a test",
        "Differences from FedSI",
        "Held-out score",
    ] {
        assert!(page.contains(words), "no `{words}`");
    }
    assert!(!page.contains("could not be read") && !page.contains("Runs that failed"));
    for plot in [
        "tradeoff",
        "wins-accuracy",
        "wins-nll",
        "differences-accuracy",
        "differences-aurc",
        "reliability-fedsi",
        "reliability-fedavg",
        "reliability-fedper",
        "learning-curves",
        "held-out-curves",
        "cost-seconds",
        "cost-bytes",
    ] {
        assert!(page.contains(&format!("data-plot=\"{plot}\"")), "{plot} is not on the page");
        assert!(folder.join(format!("plots/{plot}.png")).is_file(), "{plot} is no file");
    }

    // Remade from the folder alone.
    fs::remove_dir_all(folder.join("plots")).unwrap();
    let again = fs::read_to_string(fedsi_report::remake(&folder).unwrap()).unwrap();
    assert_eq!(again, page);

    // What is damaged or gone is named, and the rest is drawn.
    fs::write(folder.join("fedavg-s1/predictions.safetensors"), "no tensors").unwrap();
    fs::write(folder.join("fedavg-s2/metrics.jsonl"), "{\"half").unwrap();
    fs::remove_dir_all(folder.join("fedper-s1")).unwrap();
    fs::remove_dir_all(folder.join("fedper-s2")).unwrap();
    let less = kept("comparison-damaged", &folder, &fedsi_report::remake(&folder).unwrap());
    assert!(less.contains("could not be read"));
    for words in
        ["FedAvg seed 1: fedavg-s1/predictions", "FedAvg seed 2: ", "FedPer seed 1: ", "FedPer seed 2: "]
    {
        assert!(less.contains(words), "{words} is not named");
    }
    assert!(
        less.contains("data-plot=\"reliability-fedavg\"")
            && !less.contains("data-plot=\"reliability-fedper\"")
    );

    fs::write(folder.join("compare.json"), "{}").unwrap();
    assert!(fedsi_report::remake(&folder).unwrap_err().is_bad_input());
}

#[test]
fn a_comparison_of_regressions_with_a_run_that_failed() {
    let scratch = tempfile::tempdir().unwrap();
    let settings = |method: &str| {
        let mut config = table(scratch.path(), 3, |a, b| (5.0 * a - 2.0 * b).to_string());
        config.method = method.to_owned();
        config.data.files.task = TaskKind::Regression;
        config
    };
    let (folder, mut found) = comparison(scratch.path(), "fedsi,fedavg", &settings);
    let failed = fedsi_compare::comparison::Failure { seed: 2, reason: "<b>the disk</b> is full".to_owned() };
    found.methods[1].runs.truncate(1);
    found.methods[1].failures.push(failed);
    let made = fedsi_report::write_comparison(&folder, &found).unwrap();
    let page = kept("comparison-regression", &folder, &made);
    assert!(page.contains("Runs that failed") && page.contains("the disk") && !page.contains("<b>the disk"));
    assert!(page.contains("data-plot=\"coverage-fedsi\"") && !page.contains("reliability"));
    assert!(page.contains("RMSE: FedSI "));
}

#[test]
fn what_is_no_run_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let refused = |name: &str| fedsi_report::remake(&scratch.path().join(name)).unwrap_err();
    assert!(refused("missing").to_string().ends_with("missing does not exist"));
    assert!(refused("").to_string().contains("no folder of a run"));
    assert!(refused("").to_string().contains("or of a comparison"));
    fs::write(scratch.path().join("compare.toml"), "").unwrap();
    assert!(refused("").to_string().contains("a comparison that is not complete"));
    fs::write(scratch.path().join("config.toml"), "").unwrap();
    assert!(refused("").to_string().contains("not complete"));
    fs::write(scratch.path().join("summary.json"), "{}").unwrap();
    assert!(refused("").is_bad_input());
}
