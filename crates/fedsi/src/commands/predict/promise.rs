//! What conformal sets and intervals promise, in words, and on which rows they were calibrated.

use fedsi_data::{Task, display_name};
use fedsi_run::saved::SavedRun;

use super::answer::Found;

/// Clients that are named.
const MOST_NAMED: usize = 6;

/// Two lines for all models that were asked: on which rows, and what that promises. None where no set or interval was
/// wanted.
pub(super) fn promise(run: &SavedRun, found: &[Found], task: Task, is_new: bool) -> Option<[String; 2]> {
    let level = found.iter().find_map(|group| Some(group.calibration.as_ref()?.level))?;
    let (what, truth) = match task {
        Task::Classification { .. } => ("sets", "the true class in their set"),
        Task::Regression { .. } => ("intervals", "the true value in their interval"),
    };
    let (mut own, mut pooled, mut pooled_rows) = (Vec::new(), Vec::new(), 0);
    for group in found {
        let Some(calibration) = &group.calibration else { continue };
        let name = group.client.map_or_else(|| "the new client".to_owned(), |client| label(run, client));
        if calibration.client.is_some() || is_new {
            own.push(format!("{name} {}", calibration.samples));
        } else {
            pooled.push(name);
            pooled_rows = calibration.samples;
        }
    }
    let mut parts = Vec::new();
    if !own.is_empty() {
        parts.push(format!("rows of the client itself ({})", listed(&own)));
    }
    if !pooled.is_empty() {
        let own = if pooled.len() == 1 { "whose own are" } else { "each of whose own are" };
        parts.push(format!("{pooled_rows} rows of all clients for {}, {own} too few", listed(&pooled)));
    }
    let kind = if is_new { "held-out" } else { "test" };
    let over = if pooled.is_empty() { "" } else { " and clients" };
    let percent = fedsi_run::six_digits(100.0 * level);
    Some([
        format!("{what} calibrated on {kind} rows, which no fit has used: {}", parts.join("; ")),
        format!(
            "promised: of rows like those at least {percent}% have {truth}, on average over rows{over} (marginal coverage); \
             nothing of a single row or class"
        ),
    ])
}

fn label(run: &SavedRun, client: usize) -> String {
    let name = run.clients().get(client).and_then(|known| known.name.as_deref());
    name.map_or_else(|| format!("client {client}"), display_name)
}

/// Names with commas between; of many the first, and how many more.
fn listed(names: &[String]) -> String {
    match names.len().checked_sub(MOST_NAMED) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..MOST_NAMED].join(", ")),
    }
}
