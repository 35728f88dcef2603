//! Pages of real runs, small and odd ones, made by the library from end to end.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fedsi_data::{DatasetName, PartitionKind, Size, TaskKind};
use fedsi_fl::{Config, RunFolder, run};

/// What a page may weigh.
const MOST_BYTES: usize = 2_000_000;

/// Digits by the handful, for one round.
fn digits(method: &str, clients: usize) -> Config {
    let mut config = Config::defaults(method, DatasetName::Digits, Size::Small);
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
    let mut config = Config::defaults("fedsi", DatasetName::Files, Size::Small);
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
    let summary = run::run(&checked, folder, &mut ()).unwrap();
    let made = fedsi_report::write_run(&path, &summary).unwrap();
    run::complete(&path, &summary).unwrap();
    let text = fs::read_to_string(made).unwrap();
    sound(&path, &text);
    if let Some(folder) = std::env::var_os("FEDSI_PAGES") {
        fs::write(Path::new(&folder).join(format!("{name}.html")), &text).unwrap();
    }
    (path, text)
}

/// What holds for every page.
fn sound(folder: &Path, page: &str) {
    assert!(page.len() < MOST_BYTES, "{} bytes", page.len());
    // The config at the end may hold an address; the script names the standard of SVG.
    let shown = page.split("<pre").next().unwrap();
    for word in ["NaN", ">inf<", ">-inf<", "Infinity", "http://", "https://"] {
        assert!(
            !shown.contains(word),
            "{word} after {:?}",
            shown.split(word).next().map(|text| &text[text.len() - 80..])
        );
    }
    assert_eq!(page.matches("<script").count(), 2);
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
    assert!(page.contains("no test data: not judged"));
    assert!(page.contains("client 2 site 2"));
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
    fs::remove_file(moved.join("exhibits.safetensors")).unwrap();
    fedsi_report::remake(&moved).unwrap();
    let older = fs::read_to_string(moved.join("report.html")).unwrap();
    sound(&moved, &older);
    assert!(older.contains("saved no exhibits"));
}

#[test]
fn what_is_no_run_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let refused = |name: &str| fedsi_report::remake(&scratch.path().join(name)).unwrap_err();
    assert!(refused("missing").to_string().ends_with("missing does not exist"));
    assert!(refused("").to_string().contains("no folder of a run"));
    fs::write(scratch.path().join("config.toml"), "").unwrap();
    assert!(refused("").to_string().contains("not complete"));
    fs::write(scratch.path().join("summary.json"), "{}").unwrap();
    assert!(refused("").is_bad_input());
}
