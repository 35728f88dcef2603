//! `fedsi list`: runs and comparisons below a folder.

use crate::support::Scratch;

#[test]
fn runs_are_listed_with_how_far_they_are() {
    let scratch = Scratch::new();
    let empty = scratch.succeeds(&["list"]);
    assert!(empty.stdout.contains("fedsi run"), "{}", empty.stdout);
    let typed =
        ["run", "--method", "fedavg", "--rounds", "2", "--clients", "3", "--participants", "3", "--quiet"];
    // The name of somebody's own files says nothing of another dataset.
    scratch.succeeds(&[&typed[..], &["--set", "data.files.name=mine"]].concat());
    // As if it had been killed after its first round, in a folder with a long name.
    let long = "runs/a-folder-with-a-name-that-no-table-of-eighty-columns-has-room-for";
    for (name, content) in scratch.below("runs/fedavg-digits-small-s1") {
        if name != "summary.json" && !name.starts_with("clients") {
            content.into_iter().for_each(|content| scratch.write(&format!("{long}/{name}"), content));
        }
    }
    let first = scratch.text(&format!("{long}/metrics.jsonl")).lines().next().unwrap().to_owned();
    scratch.write(&format!("{long}/metrics.jsonl"), format!("{first}\n{{\"round\": 2, \"tr"));
    scratch.write("runs/broken/summary.json", "{");
    scratch.write("runs/notes/readme.txt", "mine");
    let before = scratch.everything();
    let ended = scratch.succeeds(&["list"]);
    assert_eq!(scratch.everything(), before, "nothing is changed");
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ended.stdout);
    for words in ["fedavg", "digits", "%, NLL ", "stopped, round 1", "broken", "fedsi resume DIR", "--json"] {
        assert!(ended.stdout.contains(words), "no {words} in {}", ended.stdout);
    }
    let found = scratch.succeeds(&["list", "runs", "--json"]).json();
    let all = found.as_array().unwrap();
    assert_eq!(all.len(), 3, "{found}");
    let states: Vec<&str> = all.iter().map(|run| run["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["stopped", "broken", "complete"]);
    assert_eq!((&all[0]["round"], &all[0]["rounds"]), (&1.into(), &2.into()));
    assert_eq!((&all[0]["dataset"], &all[2]["dataset"]), (&"digits".into(), &"digits".into()));
    assert_eq!((&all[2]["methods"][0], &all[2]["seeds"][0]), (&"fedavg".into(), &1.into()));
    assert!(
        all[2]["scores"]["accuracy"].is_f64() && all[2]["date"].as_str().unwrap().ends_with('Z'),
        "{found}"
    );
    let itself = scratch.succeeds(&["list", "runs/fedavg-digits-small-s1", "--json"]).json();
    assert_eq!(itself.as_array().map(Vec::len), Some(1), "a run's own folder");
    let nowhere = scratch.fedsi(&["list", "nowhere"]);
    assert_eq!(nowhere.code, Some(2));
    assert!(nowhere.stderr.contains("nowhere: there is no such folder"), "{}", nowhere.stderr);
}
