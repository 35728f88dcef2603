//! `fedsi methods`.

use fedsi_data::Task;
use fedsi_fl::methods::{METHODS, Method, Objective, Phase, Procedure, Uncertainty};
use fedsi_fl::wire::Traffic;
use fedsi_fl::{Checked, ConfigError};
use serde_json::json;

use crate::args::Settings;
use crate::output::{print, print_json};
use crate::table::{Table, bytes, line_width, wrapped};

/// Where the words of an entry begin.
const INDENT: usize = 18;

/// A method under the settings that were given.
struct Entry {
    method: &'static Method,
    procedure: Procedure,
    traffic: Traffic,
}

pub(crate) fn methods(settings: &Settings, as_json: bool) -> anyhow::Result<()> {
    let mut chosen: Vec<&Method> = METHODS.to_vec();
    if settings.method.is_some() {
        let config = settings.checked()?;
        chosen.retain(|known| known.name == config.method().name);
    }
    let (shape, task) = data(settings)?;
    let entries: Vec<Entry> =
        chosen.into_iter().map(|method| entry(method, settings, &shape, task)).collect::<Result<_, _>>()?;
    if as_json {
        return print_json(&entries.iter().map(Entry::json).collect::<Vec<_>>());
    }
    let width = line_width();
    let mut table = Table::new(3, ["method", "shares", "keeps", "up", "down"]);
    let mut details = String::new();
    for Entry { method, procedure, traffic } in &entries {
        table.row([
            method.name.to_owned(),
            shared(procedure),
            kept(procedure),
            bytes(traffic.up),
            bytes(traffic.down),
        ]);
        details.push_str(&format!("\n{} ({})\n", method.name, method.source));
        details.push_str(&wrapped(method.idea, width, 2));
        for (name, words) in [
            ("shares", shared(procedure)),
            ("keeps", kept(procedure)),
            ("a round trains", phases(&procedure.local)),
            ("at the end", phases(&procedure.personalise)),
            ("evaluated", method.evaluated.to_owned()),
        ] {
            // The name takes the place of the first line's indent.
            let lines = wrapped(&words, width, INDENT);
            details.push_str(&format!("  {name:<0$}{1}", INDENT - 2, lines.trim_start()));
        }
    }
    let parameters = of_method(METHODS[0], settings)?.network(&shape, task)?.layout().len();
    let note =
        format!("up and down: of one participant in a round, for a network of {parameters} parameters");
    print(&format!(
        "{}\n{}{details}",
        table.fitted(width, "they are in the entries below"),
        wrapped(&note, width, 0)
    ))
}

/// The shape of the data's inputs, and what is predicted.
fn data(settings: &Settings) -> anyhow::Result<(Vec<usize>, Task)> {
    let config = settings.checked()?;
    if let Some(form) = config.dataset().form() {
        return Ok((form.input_shape.to_vec(), form.task));
    }
    let opened = config.open_data()?;
    Ok((opened.input_shape().to_vec(), opened.task()))
}

/// The given settings for this method.
fn of_method(method: &Method, settings: &Settings) -> Result<Checked, ConfigError> {
    Settings { method: Some(method.name.to_owned()), ..settings.clone() }.checked()
}

fn entry(method: &'static Method, settings: &Settings, shape: &[usize], task: Task) -> anyhow::Result<Entry> {
    let config = of_method(method, settings)?;
    let procedure = config.procedure();
    let traffic = procedure.traffic(config.network(shape, task)?.layout(), config.rules())?;
    Ok(Entry { method, procedure, traffic })
}

/// What travels, and whether as values or as a distribution.
fn shared(procedure: &Procedure) -> String {
    let kind = match procedure.uncertainty {
        Uncertainty::Laplace(_) | Uncertainty::MeanField(_) => ", a Gaussian",
        Uncertainty::None | Uncertainty::Samples(_) => "",
    };
    let first = procedure.warm_start.map_or_else(String::new, |stage| {
        format!("; {} in the first {} of {} rounds", procedure.held(), stage.rounds, stage.of)
    });
    format!("{}{kind}{first}", procedure.shared)
}

/// What a client keeps, and as what.
fn kept(procedure: &Procedure) -> String {
    match &procedure.uncertainty {
        Uncertainty::MeanField(_) => format!("{}, a Gaussian", procedure.kept),
        Uncertainty::Samples(samples) => format!("{}, {} samples", procedure.kept, samples.count),
        Uncertainty::None | Uncertainty::Laplace(_) => procedure.kept.to_string(),
    }
}

fn phases(phases: &[Phase]) -> String {
    if phases.is_empty() {
        return "-".to_owned();
    }
    let words = phases.iter().map(|phase| {
        let how = match phase.objective {
            Objective::Point { .. } => "",
            Objective::Variational { .. } => " variational",
            Objective::Sample { .. } => " Langevin",
            Objective::OverSamples => " averaged over head samples",
        };
        format!("{} {}{how}", phase.part, phase.epochs)
    });
    words.collect::<Vec<_>>().join(", ")
}

impl Entry {
    fn json(&self) -> serde_json::Value {
        let Self { method, procedure, traffic } = self;
        let list = |phases: &[Phase]| -> Vec<serde_json::Value> {
            let entry = |phase: &Phase| {
                let objective = match phase.objective {
                    Objective::Point { .. } => "point",
                    Objective::Variational { .. } => "variational",
                    Objective::Sample { .. } => "langevin",
                    Objective::OverSamples => "over-samples",
                };
                json!({ "part": phase.part, "epochs": phase.epochs, "objective": objective })
            };
            phases.iter().map(entry).collect()
        };
        let uncertainty = match procedure.uncertainty {
            Uncertainty::None => "none",
            Uncertainty::Laplace(_) => "laplace",
            Uncertainty::MeanField(_) => "mean-field",
            Uncertainty::Samples(_) => "samples",
        };
        json!({
            "name": method.name,
            "title": method.title,
            "source": method.source,
            "idea": method.idea,
            "shares": procedure.shared,
            "keeps": procedure.kept,
            "warm_start_rounds": procedure.warm_start.map_or(0, |stage| stage.rounds),
            "uncertainty": uncertainty,
            "local": list(&procedure.local),
            "personalise": list(&procedure.personalise),
            "bytes": traffic,
            "evaluated": method.evaluated,
        })
    }
}
