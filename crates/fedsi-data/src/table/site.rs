//! What a site tells of its own training rows so that all sites can encode tables alike.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::cell::{DateOrder, boolean, date, is_missing, number};
use super::identifier::names_an_identifier;
use super::moments::Moments;
use crate::error::{DataError, quoted};

/// Most categories of a column that a site lists; of more than these it lists the most frequent ones.
const MOST_LISTED: usize = 200;
/// Most different whole numbers of a column that a site lists as categories, in case they are texts elsewhere.
const MOST_LISTED_NUMBERS: usize = 20;
/// Rows of a site that a text must have to be listed, and rows of all sites to have an input of its own: what only one or two
/// rows have may tell whose they are.
pub(super) const FEWEST_ROWS: u64 = 3;
/// Most letters of a category that is listed; longer ones count as other.
const LONGEST_CATEGORY: usize = 100;
/// Rows from which on values can be told to be all different, or long.
const ENOUGH_ROWS: u64 = 20;
/// Mean letters from which on texts are prose and not categories.
pub(super) const PROSE: f64 = 40.0;
/// Most bytes of a summary, columns and targets.
const MOST_BYTES: usize = 64 << 20;
const MOST_COLUMNS: usize = 1 << 20;

/// How a table is to be encoded: the same at every site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummarySettings {
    /// Whether numbers are brought to mean 0 and standard deviation 1.
    pub standardize: bool,
    /// Whether all columns hold nothing but numbers.
    pub strict: bool,
    /// Whether the columns were named one by one: then all of them are used, whatever they hold.
    pub listed: bool,
}

/// Counts, means, medians and categories of one site's training rows. It holds no row, no text that fewer than three rows of
/// the site have, and no text of a column whose name says that it identifies somebody, unless the columns were named one by
/// one. Means and medians of one or two rows are those rows' values: a site of so few rows tells them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteSummary {
    /// How the table is to be encoded.
    pub settings: SummarySettings,
    /// Training rows.
    pub rows: u64,
    /// Columns that may become inputs, in their order.
    pub columns: Vec<ColumnSummary>,
    /// Regression: the targets, one each.
    pub targets: Vec<Moments>,
}

/// What a site says of one column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnSummary {
    /// What the table calls it.
    pub name: String,
    /// Rows without a value.
    pub missing: u64,
    /// Its values as numbers.
    pub numbers: Moments,
    /// Whether all its numbers are whole.
    pub whole: bool,
    /// How many of its values are booleans, and how many of those are true.
    pub booleans: (u64, u64),
    /// Its values as dates, 3/4/2024 being the third of April.
    pub day_first: Moments,
    /// The same with 3/4/2024 as the fourth of March.
    pub month_first: Moments,
    /// How many different values there are.
    pub distinct: u64,
    /// The mean number of letters of a value.
    pub letters: f64,
    /// Categories that at least three rows have and how many have them, the most frequent first; empty where values are
    /// numbers, dates, prose or all different, and where the name says that they identify somebody.
    pub categories: Vec<(String, u64)>,
}

impl SiteSummary {
    /// Describes `rows` rows, whose cells `cell(row, column)` gives; `targets` are the values of regression targets, a list
    /// for each. Costs reading all cells, a column at a time.
    #[must_use]
    pub fn of<'a>(
        settings: SummarySettings,
        names: &[String],
        rows: usize,
        cell: impl Fn(usize, usize) -> Cow<'a, str>,
        targets: Vec<Vec<f64>>,
    ) -> Self {
        let column = |(at, name): (usize, &String)| {
            let mut counts: HashMap<Cow<'a, str>, u64> = HashMap::new();
            for row in 0..rows {
                *counts.entry(cell(row, at)).or_default() += 1;
            }
            ColumnSummary::of(name, settings, &counts)
        };
        let columns = names.iter().enumerate().map(column).collect();
        let targets = targets.into_iter().map(|mut values| Moments::of(&mut values)).collect();
        Self { settings, rows: rows as u64, columns, targets }
    }

    /// The message that a site sends: JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // A structure of numbers, texts and lists always has a text; an empty one is refused by who receives it.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads and checks a message of another site.
    ///
    /// # Errors
    /// Bytes that are no summary, or one that no table can have: too large, numbers that are not finite, counts beyond the
    /// rows, a column twice.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DataError> {
        let bad = |found: String, expected: &str| DataError::Summary { found, expected: expected.to_owned() };
        if bytes.len() > MOST_BYTES {
            return Err(bad(format!("{} bytes", bytes.len()), "at most 64 MiB"));
        }
        let summary: Self = serde_json::from_slice(bytes)
            .map_err(|error| bad(error.to_string(), "a summary of a table as JSON"))?;
        summary.check()?;
        Ok(summary)
    }

    /// Whether a table can have such a summary.
    pub(crate) fn check(&self) -> Result<(), DataError> {
        let bad =
            |found: String, expected: &str| Err(DataError::Summary { found, expected: expected.to_owned() });
        if self.columns.len() > MOST_COLUMNS || self.targets.len() > MOST_COLUMNS {
            return bad(format!("{} columns", self.columns.len()), "at most 1048576 columns and targets");
        }
        if self.targets.iter().any(|target| !target.is_possible(self.rows)) {
            return bad("a target's mean or count".to_owned(), "finite numbers, and counts within the rows");
        }
        let mut names = HashSet::with_capacity(self.columns.len());
        for column in &self.columns {
            if !names.insert(&column.name) {
                return bad(format!("column {} twice", quoted(&column.name)), "each column once");
            }
            if !column.is_possible(self.rows) {
                let found = format!("column {} as no table has it", quoted(&column.name));
                return bad(found, "finite numbers, counts within the rows, at most 200 short categories");
            }
        }
        Ok(())
    }
}

impl ColumnSummary {
    /// From the different texts of a column and how often each occurs.
    fn of(name: &str, settings: SummarySettings, counts: &HashMap<Cow<'_, str>, u64>) -> Self {
        let mut numbers = Vec::new();
        let (mut day_first, mut month_first) = (Vec::new(), Vec::new());
        let (mut missing, mut present, mut booleans, mut letters) = (0, 0_u64, (0, 0), 0_u64);
        // Sums of floats have a fixed order.
        let mut sorted: Vec<(&str, u64)> =
            counts.iter().map(|(text, &count)| (text.as_ref(), count)).collect();
        sorted.sort_unstable();
        for &(text, count) in &sorted {
            if is_missing(text) {
                missing += count;
                continue;
            }
            present += count;
            letters += text.chars().count() as u64 * count;
            let times = usize::try_from(count).unwrap_or(usize::MAX);
            if let Some(value) = number(text) {
                numbers.extend(std::iter::repeat_n(value, times));
            } else if let Some(value) = boolean(text) {
                booleans.0 += count;
                booleans.1 += if value { count } else { 0 };
            } else {
                for (order, days) in
                    [(DateOrder::DayFirst, &mut day_first), (DateOrder::MonthFirst, &mut month_first)]
                {
                    days.extend(
                        date(text, order).into_iter().flat_map(|day| std::iter::repeat_n(day, times)),
                    );
                }
            }
        }
        sorted.retain(|(text, _)| !is_missing(text));
        let distinct = sorted.len() as u64;
        let letters = if present == 0 { 0.0 } else { letters as f64 / present as f64 };
        let whole = numbers.iter().all(|value: &f64| value.fract() == 0.0);
        let mostly = |count: usize| count as u64 * 2 > present;
        let prose = present >= ENOUGH_ROWS
            && (distinct * 20 >= present * 19 || (letters >= PROSE && distinct * 2 >= present));
        let listed = if mostly(numbers.len()) {
            whole && sorted.len() <= MOST_LISTED_NUMBERS
        } else {
            !mostly(day_first.len().max(month_first.len())) && !prose
        };
        let mut categories: Vec<(String, u64)> = Vec::new();
        if listed && (settings.listed || !names_an_identifier(name)) {
            sorted.retain(|&(text, count)| count >= FEWEST_ROWS && text.chars().count() <= LONGEST_CATEGORY);
            sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
            categories.extend(sorted.iter().take(MOST_LISTED).map(|&(text, count)| (text.to_owned(), count)));
        }
        Self {
            name: name.to_owned(),
            missing,
            numbers: Moments::of(&mut numbers),
            whole,
            booleans,
            day_first: Moments::of(&mut day_first),
            month_first: Moments::of(&mut month_first),
            distinct,
            letters,
            categories,
        }
    }

    fn is_possible(&self, rows: u64) -> bool {
        let Some(present) = rows.checked_sub(self.missing) else { return false };
        let short = |text: &str| !text.is_empty() && text.chars().count() <= LONGEST_CATEGORY;
        let listed = self.categories.iter().try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count));
        let different: HashSet<&String> = self.categories.iter().map(|(text, _)| text).collect();
        [self.numbers, self.day_first, self.month_first].iter().all(|moments| moments.is_possible(present))
            && self.booleans.0 <= present
            && self.booleans.1 <= self.booleans.0
            && self.distinct <= present
            && self.letters.is_finite()
            && self.letters >= 0.0
            && self.categories.len() <= MOST_LISTED
            && different.len() == self.categories.len()
            && self.categories.iter().all(|(text, _)| short(text) && !is_missing(text))
            && listed.is_some_and(|listed| listed <= present)
    }
}
