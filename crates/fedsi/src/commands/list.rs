//! `fedsi list`.

use std::path::Path;

use fedsi_data::shortened;
use fedsi_fl::scores::Scores;
use fedsi_run::{Listed, State, list_runs};
use serde_json::{Value, json};

use crate::args::RunsArguments;
use crate::output::{BadInput, print, print_json};
use crate::table::Table;

/// Columns of a terminal.
const WIDTH: usize = 80;

pub(crate) fn list(arguments: &RunsArguments, json: bool) -> anyhow::Result<()> {
    let folder = &arguments.dir;
    // The default need not be there.
    if !folder.is_dir() && folder != Path::new(RunsArguments::DEFAULT) {
        return Err(BadInput(format!(
            "{}: there is no such folder; name one with runs in it",
            folder.display()
        ))
        .into());
    }
    let found = list_runs(folder);
    if json {
        return print_json(&found.iter().map(entry).collect::<Vec<_>>());
    }
    if found.is_empty() {
        let words =
            "there is no run or comparison below it; `fedsi run` makes one, `fedsi list DIR` looks elsewhere";
        return print(&format!("{}: {words}\n", folder.display()));
    }
    print(&table(folder, &found))
}

/// What a script gets: everything, the date as text too.
fn entry(run: &Listed) -> Value {
    let mut value = json!(run);
    value["date"] = run.seconds.map(date_and_time).into();
    value
}

fn table(folder: &Path, found: &[Listed]) -> String {
    let name = |run: &Listed| {
        let below = run.folder.strip_prefix(folder).unwrap_or(&run.folder);
        if below.as_os_str().is_empty() {
            run.folder.display().to_string()
        } else {
            below.display().to_string()
        }
    };
    let others: Vec<[String; 6]> = found.iter().map(cells).collect();
    let heading = ["method", "data", "seed", "rounds", "result", "date"];
    let width = |column: usize| {
        let cells = others.iter().map(|row| row[column].chars().count());
        cells.chain([heading[column].len()]).max().unwrap_or(0)
    };
    // What the other columns leave, and never less than can be read.
    let rest: usize = (0..heading.len()).map(|column| 2 + width(column)).sum();
    let left = WIDTH.saturating_sub(rest).max(12);
    let is_cut = found.iter().any(|run| name(run).chars().count() > left);
    let mut table = Table::new(3, ["folder"].into_iter().chain(heading));
    for (run, cells) in found.iter().zip(others) {
        table.row([end_of(&name(run), left)].into_iter().chain(cells));
    }
    let cut = if is_cut { "folders are cut to fit; --json has them whole\n" } else { "" };
    format!("{table}\n{}{cut}", caption(found))
}

/// The last letters of a path, which tell runs apart.
fn end_of(path: &str, letters: usize) -> String {
    let count = path.chars().count();
    if count <= letters {
        return shortened(path, letters);
    }
    let end: String = path.chars().skip(count - letters + 1).collect();
    shortened(&format!("…{end}"), letters)
}

fn cells(run: &Listed) -> [String; 6] {
    let methods = match run.methods.as_slice() {
        [] => "-".to_owned(),
        [one] => one.clone(),
        several => format!("{} methods", several.len()),
    };
    let seeds = match run.seeds.as_slice() {
        [] => "-".to_owned(),
        [one] => one.to_string(),
        several => format!("{} seeds", several.len()),
    };
    let rounds = run.rounds.map_or("-".to_owned(), |rounds| rounds.to_string());
    let result = match (&run.state, run.scores) {
        (State::Complete, Some(scores)) => figures(&scores),
        (State::Complete, None) => run.kind.to_owned(),
        (State::Running { round }, _) => format!("running, round {round}"),
        (State::Stopped { round }, _) => format!("stopped, round {round}"),
        (State::Broken { .. }, _) => "broken".to_owned(),
    };
    let date = run.seconds.map_or("-".to_owned(), |seconds| date_and_time(seconds)[..10].to_owned());
    let data = run.dataset.as_deref().map_or("-".to_owned(), |name| shortened(name, 13));
    [shortened(&methods, 10), data, seeds, rounds, result, date]
}

/// The main scores.
fn figures(scores: &Scores) -> String {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    match *scores {
        Scores::Classification { accuracy, nll, .. } => {
            let accuracy = accuracy.map_or("-".to_owned(), |share| format!("{:.1}%", 100.0 * share));
            format!("{accuracy}, NLL {}", number(nll))
        }
        Scores::Regression { rmse, .. } => {
            format!("RMSE {}", rmse.map_or("-".to_owned(), fedsi_run::six_digits))
        }
    }
}

/// What can be done about runs that are not complete.
fn caption(found: &[Listed]) -> String {
    let stopped = found.iter().any(|run| matches!(run.state, State::Stopped { .. }));
    let broken = found.iter().any(|run| matches!(run.state, State::Broken { .. }));
    let mut text = String::new();
    if stopped {
        text.push_str("stopped runs go on with: fedsi resume DIR\n");
    }
    if broken {
        text.push_str("--json says why a run is broken\n");
    }
    text
}

/// A time in UTC as 2026-11-16T06:40:00Z.
fn date_and_time(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since the first of March of the year 0, in whose years the leap day comes last.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year_of_era + 400 * era + carry;
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date_and_time(seconds), text);
        }
    }

    #[test]
    fn long_paths_keep_their_ends() {
        assert_eq!(end_of("fedsi-digits-small-s1", 10), "…-small-s1");
        assert_eq!(end_of("short", 10), "short");
    }
}
