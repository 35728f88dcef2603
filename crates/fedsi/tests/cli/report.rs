//! `fedsi report`: pages of saved runs, regenerated.

use std::fs;

use crate::support::Scratch;

#[test]
fn a_saved_run_gets_its_page_and_plots_again() {
    let scratch = Scratch::new();
    scratch.succeeds(&["run", "--quiet", "--rounds", "1", "--epochs", "1", "--clients", "3", "--out", "r"]);
    let page = scratch.text("r/report.html");
    let plots = scratch.below("r/plots");
    assert!(
        plots.contains_key("reliability.svg") && plots.contains_key("reliability.png"),
        "{:?}",
        plots.keys()
    );
    fs::remove_file(scratch.path("r/report.html")).unwrap();
    fs::remove_dir_all(scratch.path("r/plots")).unwrap();
    let said = scratch.succeeds(&["report", "r"]).stdout;
    assert_eq!(said.trim(), "r/report.html");
    assert_eq!(scratch.text("r/report.html"), page);
    assert_eq!(scratch.below("r/plots"), plots);
    let said = scratch.succeeds(&["report", "r", "r", "--json"]).json();
    assert_eq!(said[1]["report"], "r/report.html");
    // The folder is still a run's, and nothing but a run's.
    scratch.succeeds(&[
        "run",
        "--quiet",
        "--rounds",
        "1",
        "--epochs",
        "1",
        "--clients",
        "3",
        "--out",
        "r",
        "--force",
    ]);
}

#[test]
fn a_folder_that_is_no_complete_run_is_refused_in_one_line() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("empty")).unwrap();
    scratch.write("broken/summary.json", "{}");
    for (name, reason) in [
        ("missing", "missing does not exist"),
        ("empty", "empty is no folder of a run"),
        ("broken", "summary.json is not what a run writes"),
    ] {
        let before = scratch.everything();
        let ended = scratch.fedsi(&["report", name]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(reason), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert_eq!(scratch.everything(), before, "something was written");
    }
}
