//! A comparison that was stopped: what its finished runs say, and which are missing.

use std::path::Path;

use fedsi_fl::methods::METHODS;
use fedsi_run::Summary;
use toml::{Table, Value};

use crate::comparison::Comparison;
use crate::external::ExternalMethod;
use crate::folder::read_marker;
use crate::plan::read_summary;
use crate::summarise::{ComparedMethod, ComparedRun, Finished, Outcome, summarise};
use crate::tune::TunedValues;
use crate::{CompareError, plan};

/// What `compare.toml` says is compared.
struct Plan {
    methods: Vec<String>,
    external: Vec<ExternalMethod>,
    seeds: Vec<u64>,
    reference: Option<String>,
    columns: Vec<String>,
}

impl Plan {
    /// As this version writes it, in `[compare]`, or as 0.2 did, without a section.
    fn of(marker: &Table) -> Self {
        let section = marker.get("compare").and_then(Value::as_table);
        let made = section.and_then(|section| section.get("made")).and_then(Value::as_table);
        let (wanted, made) = (section.unwrap_or(marker), made.unwrap_or(marker));
        let texts = |table: &Table, key: &str| -> Vec<String> {
            let list = table.get(key).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(|value| value.as_str().map(str::to_owned)).collect()
        };
        let seeds = made.get("seeds").and_then(Value::as_array).into_iter().flatten();
        Self {
            methods: texts(wanted, "methods"),
            external: texts(wanted, "with")
                .iter()
                .filter_map(|text| ExternalMethod::parse(text).ok())
                .collect(),
            seeds: seeds.filter_map(|seed| u64::try_from(seed.as_integer()?).ok()).collect(),
            reference: wanted.get("reference").and_then(Value::as_str).map(str::to_owned),
            columns: texts(wanted, "columns"),
        }
    }
}

impl Comparison {
    /// What the finished runs in a comparison's folder say, with the others as [missing](Self::missing): of those that
    /// `compare.toml` names, or, where none of them is finished, of all that are there. `None` where no run is. Costs
    /// reading the predictions of every finished run.
    ///
    /// # Errors
    /// A folder that cannot be read, a summary that is none.
    pub fn unfinished(folder: &Path) -> Result<Option<Self>, CompareError> {
        let mut plan = Plan::of(&read_marker(folder)?);
        let mut methods = plan.read(folder)?;
        if !any_complete(&methods) {
            (plan.methods, plan.seeds) = runs_there(folder)?;
            plan.external.clear();
            methods = plan.read(folder)?;
        }
        let first = methods.iter().flat_map(|method| &method.runs).find_map(|run| match &run.outcome {
            Outcome::Complete(summary) => Some(Summary::clone(summary)),
            Outcome::Failed(_) | Outcome::Missing => None,
        });
        let Some(first) = first else { return Ok(None) };
        let of_known: Vec<_> = methods
            .iter()
            .filter_map(|method| METHODS.iter().copied().find(|known| known.name == method.name))
            .collect();
        let reference = plan::reference(&of_known, &plan.external, plan.reference.as_deref()).unwrap_or(0);
        Ok(Some(summarise(Finished {
            folder,
            methods,
            reference,
            dataset: first.dataset,
            size: first.size,
            rounds: first.rounds,
            seeds: plan.seeds,
            jobs: 1,
            columns: plan.columns,
            tuning: None,
        })))
    }
}

impl Plan {
    /// Every method with its runs. Other tools' predictions are scored when the runs are complete.
    fn read(&self, folder: &Path) -> Result<Vec<ComparedMethod>, CompareError> {
        let mut methods = Vec::new();
        let known = METHODS.iter().filter(|method| self.methods.iter().any(|name| name == method.name));
        for method in known {
            let mut runs = Vec::new();
            for &seed in &self.seeds {
                let name = format!("{}-s{seed}", method.name);
                let outcome = match read_summary(&folder.join(&name).join("summary.json"))? {
                    Some(summary) => Outcome::Complete(Box::new(summary)),
                    None => Outcome::Missing,
                };
                runs.push(ComparedRun { seed, folder: name, outcome });
            }
            methods.push(ComparedMethod::of(method, TunedValues::default(), runs));
        }
        for external in &self.external {
            let missing =
                |&seed: &u64| ComparedRun { seed, folder: external.folder(seed), outcome: Outcome::Missing };
            methods.push(ComparedMethod::external(external, self.seeds.iter().map(missing).collect()));
        }
        Ok(methods)
    }
}

fn any_complete(methods: &[ComparedMethod]) -> bool {
    methods.iter().flat_map(|method| &method.runs).any(|run| matches!(run.outcome, Outcome::Complete(_)))
}

/// The methods and seeds of the runs that are complete in a folder, whatever was asked for last.
fn runs_there(folder: &Path) -> Result<(Vec<String>, Vec<u64>), CompareError> {
    let entries = std::fs::read_dir(folder).map_err(|error| CompareError::content(folder, &error))?;
    let (mut methods, mut seeds) = (Vec::new(), Vec::new());
    for entry in entries.flatten().filter(|entry| entry.path().join("summary.json").is_file()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((method, seed)) = name.rsplit_once("-s") else { continue };
        let Ok(seed) = seed.parse::<u64>() else { continue };
        methods.push(method.to_owned());
        seeds.push(seed);
    }
    seeds.sort_unstable();
    seeds.dedup();
    Ok((methods, seeds))
}
