//! Which parameters may have a distribution: the body's, by a rule; or the head, the last layers or all, whole.

use std::ops::Range;
use std::sync::Arc;

use fedsi_bayes::{RuleName, Rules, SelectionRule};
use fedsi_nn::Layout;

use super::case::Case;
use crate::args::LaplaceArguments;
use crate::output::BadInput;

/// The rule where none is named.
const DEFAULT_RULE: &str = "variance";

/// What is selected, and from which parameters.
pub(super) enum Wanted {
    /// So many of the range, by a rule.
    ByRule { rule: Arc<dyn SelectionRule>, size: usize, range: Range<usize> },
    /// All of the range.
    All { name: String, range: Range<usize> },
}

impl Wanted {
    pub(super) fn of(arguments: &LaplaceArguments, case: &Case) -> Result<Self, BadInput> {
        let layout = case.network.layout();
        let whole = match (arguments.last_layers, arguments.subnetwork.as_deref()) {
            (Some(layers), _) => Some((format!("last {layers} layers"), last_layers(layout, layers)?)),
            (None, Some("head")) => Some(("head".to_owned(), layout.head())),
            (None, Some("all")) => Some(("all".to_owned(), 0..layout.len())),
            _ => None,
        };
        if let Some((name, range)) = whole {
            if let Some(rule) = &arguments.rule {
                return Err(BadInput(format!(
                    "--rule {rule}: {name} means all of its parameters, so that there is nothing to choose; leave --rule out"
                )));
            }
            return Ok(Self::All { name, range });
        }
        let name = arguments.rule.as_deref().unwrap_or(DEFAULT_RULE);
        let rule = Rules::builtin()
            .find(&RuleName::from(name))
            .map_err(|error| BadInput(format!("--rule: {error}")))?;
        let mut range = layout.body();
        if !rule.has_own_size() {
            let size = size(arguments.subnetwork.as_deref(), case)?;
            return Ok(Self::ByRule { rule, size, range });
        }
        // Layers that are named may be the head.
        if rule.check(layout, range.clone(), range.len()).is_err() {
            range = 0..layout.len();
        }
        let size = rule
            .check(layout, range.clone(), range.len())
            .map_err(|error| BadInput(format!("--rule {name}: {error}")))?;
        Ok(Self::ByRule { rule, size, range })
    }

    pub(super) fn range(&self) -> Range<usize> {
        match self {
            Self::ByRule { range, .. } | Self::All { range, .. } => range.clone(),
        }
    }

    /// How many parameters have a distribution.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::ByRule { size, .. } => *size,
            Self::All { range, .. } => range.len(),
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::ByRule { rule, .. } => rule.name(),
            Self::All { name, .. } => name,
        }
    }
}

/// The parameters of the last layers that have any.
fn last_layers(layout: &Layout, count: usize) -> Result<Range<usize>, BadInput> {
    let mut starts: Vec<usize> = Vec::new();
    let mut last = None;
    for tensor in layout.tensors() {
        if last != Some(tensor.layer) {
            starts.push(tensor.range.start);
            last = Some(tensor.layer);
        }
    }
    let first = starts.len().checked_sub(count).filter(|_| count > 0);
    first.map(|first| starts[first]..layout.len()).ok_or_else(|| {
        BadInput(format!("--last-layers {count}: expected 1 to {}, the layers with parameters", starts.len()))
    })
}

/// How many parameters: a number, a percentage, or what the case says.
fn size(wanted: Option<&str>, case: &Case) -> Result<usize, BadInput> {
    let body = case.network.layout().body().len();
    let bad = |text: &str| {
        BadInput(format!(
            "--subnetwork {text}: expected a number from 1 to {body}, a percentage such as 5%, head or all"
        ))
    };
    let Some(text) = wanted else {
        let missing = || {
            BadInput("case.json has no `subnetwork_size`; give --subnetwork N, P%, head or all".to_owned())
        };
        return case.subnetwork_size.ok_or_else(missing);
    };
    match text.strip_suffix('%') {
        None => text.parse().map_err(|_| bad(text)),
        Some(percent) => match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => {
                Ok(((percent / 100.0 * body as f64).round() as usize).max(1))
            }
            _ => Err(bad(text)),
        },
    }
}
