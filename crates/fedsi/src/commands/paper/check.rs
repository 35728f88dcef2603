//! `--check FILE`: whether the digits of every run are those of an earlier time.

use fedsi_paper::Plan;
use fedsi_paper::results::Results;

use crate::output::print;

/// Compares the scores of every planned run, of all clients, to the last bit.
pub(super) fn check(plan: &Plan, found: &Results, expected: &Results, quiet: bool) -> anyhow::Result<()> {
    let (mut same, mut absent, mut differing) = (0, 0, Vec::new());
    for run in &plan.runs {
        let (Some(own), Some(other)) = (found.find(run), expected.find(run)) else {
            absent += 1;
            continue;
        };
        let scores = own.summary.scores == other.summary.scores
            && (&own.bins, own.error_at_80, &own.strange_inputs)
                == (&other.bins, other.error_at_80, &other.strange_inputs);
        if scores && own.summary.clients == other.summary.clients {
            same += 1;
        } else {
            let cpu = |summary: &fedsi_run::Summary| summary.cpu.clone().unwrap_or_default();
            let (here, there) = (cpu(&own.summary), cpu(&other.summary));
            let machines =
                if here == there { String::new() } else { format!(" ({here} here, {there} there)") };
            differing.push(format!("{}{machines}", run.planned.name()));
        }
    }
    if same == 0 && differing.is_empty() {
        anyhow::bail!("--check: none of the {} runs is in both results", plan.runs.len());
    }
    if !differing.is_empty() {
        anyhow::bail!(
            "--check: {} of {} runs have other digits: {}; digits are the same on the same kind of CPU or GPU alone",
            differing.len(),
            same + differing.len(),
            differing.join(", ")
        );
    }
    if !quiet {
        let rest = if absent > 0 { format!("; {absent} are not in both") } else { String::new() };
        print(&format!("check: {same} runs have the same digits{rest}\n"))?;
    }
    Ok(())
}
