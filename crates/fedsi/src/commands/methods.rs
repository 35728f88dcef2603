//! `fedsi methods`.

use fedsi_data::{DatasetName, Size};
use fedsi_fl::Config;
use fedsi_fl::methods::{METHODS, Method, Phase, Procedure};
use serde_json::json;

use crate::output::{print, print_json};
use crate::table::Table;

pub(crate) fn methods(as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print_json(&METHODS.iter().map(|method| entry(method)).collect::<Vec<_>>());
    }
    let mut table = Table::new(6, ["method", "shares", "keeps", "a round trains", "at the end", "source"]);
    let mut ideas = Table::new(3, ["method", "idea", "evaluated"]);
    for method in METHODS {
        let procedure = declare(method);
        table.row([
            method.name.to_owned(),
            shared(&procedure),
            procedure.kept.to_string(),
            phases(&procedure.local),
            phases(&procedure.personalise),
            method.source.to_owned(),
        ]);
        ideas.row([method.name, method.idea, method.evaluated].map(str::to_owned));
    }
    print(&format!("{table}\n{ideas}"))
}

/// The method with every setting at its default.
fn declare(method: &Method) -> Procedure {
    (method.declare)(&Config::defaults(method.name, DatasetName::Digits, Size::Small))
}

/// What travels, and whether as values or as a distribution.
fn shared(procedure: &Procedure) -> String {
    let kind = if procedure.gaussian.is_some() { ", a Gaussian" } else { "" };
    format!("{}{kind}", procedure.shared)
}

fn phases(phases: &[Phase]) -> String {
    if phases.is_empty() {
        return "-".to_owned();
    }
    let words = phases.iter().map(|phase| format!("{} {}", phase.part, phase.epochs));
    words.collect::<Vec<_>>().join(", ")
}

fn entry(method: &Method) -> serde_json::Value {
    let procedure = declare(method);
    let list = |phases: &[Phase]| -> Vec<serde_json::Value> {
        phases.iter().map(|phase| json!({ "part": phase.part, "epochs": phase.epochs })).collect()
    };
    json!({
        "name": method.name,
        "title": method.title,
        "source": method.source,
        "idea": method.idea,
        "shares": procedure.shared,
        "gaussian": procedure.gaussian.is_some(),
        "keeps": procedure.kept,
        "local": list(&procedure.local),
        "personalise": list(&procedure.personalise),
        "evaluated": method.evaluated,
    })
}
