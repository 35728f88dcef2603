//! The built-in rules, and lists of rules by name.
//!
//! Each parameter r has a marginal posterior variance `v_r = 1/(h_r + 1/g_r)`, from the diagonal h of the
//! Gauss-Newton matrix and the prior variance g, and a sensitivity `j_r`, the summed squared derivative of the outputs
//! in it. The rules differ in what they make of these.
//!
//! | Name | Takes | Random |
//! |---|---|---|
//! | `variance` | the largest `v_r` (FedSI's paper) | no |
//! | `live` | the largest `v_r` where `h_r > 0` | no |
//! | `predictive` | the largest `v_r * j_r` | no |
//! | `leverage` | a draw weighted by `v_r * j_r` | yes |
//! | `random` | a uniform draw | yes |
//! | `magnitude` | the largest absolute values | no |
//! | `layers:0,3.weight` | everything in the named layers and tensors | no |

mod drawn;
mod layers;
mod ranked;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use drawn::{Leverage, Random};
pub use layers::Layers;
pub use ranked::{Live, Magnitude, Predictive, Variance};

use super::{RuleName, RuleNameError, SelectionRule};

/// Makes a rule from the text behind `NAME:`; none where the text is not one it takes.
type Parse = fn(&str) -> Option<Arc<dyn SelectionRule>>;

/// The rules that a config may name: the built-in ones, and those that are added.
#[derive(Clone, Debug)]
pub struct Rules {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
enum Entry {
    Rule(Arc<dyn SelectionRule>),
    /// A rule with arguments: `NAME:...`.
    Parsed {
        name: String,
        usage: String,
        summary: String,
        parse: Parse,
    },
}

impl Entry {
    fn name(&self) -> &str {
        match self {
            Self::Rule(rule) => rule.name(),
            Self::Parsed { name, .. } => name,
        }
    }

    fn usage(&self) -> &str {
        match self {
            Self::Rule(rule) => rule.name(),
            Self::Parsed { usage, .. } => usage,
        }
    }

    fn summary(&self) -> &str {
        match self {
            Self::Rule(rule) => rule.summary(),
            Self::Parsed { summary, .. } => summary,
        }
    }
}

impl Rules {
    /// The built-in rules, in the order in which they are listed to a user.
    #[must_use]
    pub fn builtin() -> Self {
        let rules: [Arc<dyn SelectionRule>; 6] = [
            Arc::new(Variance),
            Arc::new(Live),
            Arc::new(Predictive),
            Arc::new(Leverage),
            Arc::new(Random),
            Arc::new(Magnitude),
        ];
        let mut entries: Vec<Entry> = rules.into_iter().map(Entry::Rule).collect();
        entries.push(Entry::Parsed {
            name: Layers::NAME.to_owned(),
            usage: Layers::USAGE.to_owned(),
            summary: Layers::SUMMARY.to_owned(),
            parse: Layers::parse,
        });
        Self { entries }
    }

    /// Adds a rule under its name.
    ///
    /// # Errors
    /// A name that another rule has, or that no config could write (empty, or with a colon).
    pub fn add(&mut self, rule: Arc<dyn SelectionRule>) -> Result<(), RuleNameError> {
        self.check_new(rule.name())?;
        self.entries.push(Entry::Rule(rule));
        Ok(())
    }

    /// Adds rules written `NAME:ARGUMENTS`. `parse` makes one from the arguments, or says that it takes no such;
    /// `usage` and `summary` are what a list of rules shows.
    ///
    /// # Errors
    /// As for [`Self::add`].
    pub fn add_parsed(
        &mut self,
        name: &str,
        usage: &str,
        summary: &str,
        parse: fn(&str) -> Option<Arc<dyn SelectionRule>>,
    ) -> Result<(), RuleNameError> {
        self.check_new(name)?;
        let (name, usage, summary) = (name.to_owned(), usage.to_owned(), summary.to_owned());
        self.entries.push(Entry::Parsed { name, usage, summary, parse });
        Ok(())
    }

    fn check_new(&self, name: &str) -> Result<(), RuleNameError> {
        if name.is_empty() || name.contains(':') || name.trim() != name {
            return Err(RuleNameError::Unwritable { name: name.to_owned() });
        }
        match self.entries.iter().any(|entry| entry.name() == name) {
            true => Err(RuleNameError::Taken { name: name.to_owned() }),
            false => Ok(()),
        }
    }

    /// The rule of this name.
    ///
    /// # Errors
    /// A name that no rule has; arguments that are missing or not taken.
    pub fn find(&self, name: &RuleName) -> Result<Arc<dyn SelectionRule>, RuleNameError> {
        let text = name.as_str();
        let (head, arguments) = text.split_once(':').map_or((text, None), |(head, rest)| (head, Some(rest)));
        let unknown = || RuleNameError::Unknown { name: text.to_owned(), known: self.known() };
        match (self.entries.iter().find(|entry| entry.name() == head), arguments) {
            (Some(Entry::Rule(rule)), None) => Ok(Arc::clone(rule)),
            (Some(Entry::Parsed { usage, parse, .. }), arguments) => {
                let refused = || RuleNameError::Arguments { name: text.to_owned(), usage: usage.clone() };
                arguments.and_then(parse).ok_or_else(refused)
            }
            (Some(Entry::Rule(_)), Some(_)) | (None, _) => Err(unknown()),
        }
    }

    /// How each rule is written, and its summary, in the order in which they are listed to a user.
    pub fn list(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|entry| (entry.usage(), entry.summary()))
    }

    /// `variance, live, ... or layers:NAME,...`
    fn known(&self) -> String {
        let mut usages: Vec<&str> = self.entries.iter().map(Entry::usage).collect();
        match usages.pop() {
            Some(last) if !usages.is_empty() => format!("{} or {last}", usages.join(", ")),
            last => last.unwrap_or_default().to_owned(),
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::builtin()
    }
}
