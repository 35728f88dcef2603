//! Runs as the cells of a table: which of them a cell is made of, its mean, and how it compares with FedSI's.

use std::collections::{BTreeMap, BTreeSet};

use fedsi_compare::SummaryStatistics;
use fedsi_compare::statistics::{Difference, Metric, MetricResult, metrics};
use fedsi_fl::scores::Scores;
use fedsi_run::Summary;

use crate::entry::{Entry, REFERENCE, Source};
use crate::plan::{Plan, values};
use crate::record::RunRecord;
use crate::results::Results;
use crate::setting::Setting;

/// Differences with a smaller p-value are called established, where the bootstrap agrees.
const LEVEL: f64 = 0.05;

/// All rows under one setting.
#[derive(Clone, Debug)]
pub struct SettingCells<'a> {
    /// The setting.
    pub setting: &'a Setting,
    /// The rows, in the order of the plan.
    pub rows: Vec<RowCells<'a>>,
    /// Ranks and differences from FedSI, row by row: of the rows that have its rounds and, at least, its seeds.
    pub statistics: SummaryStatistics,
    /// The scores that there are.
    metrics: Vec<Metric>,
}

/// A row under a setting: of its runs, those with the most rounds.
#[derive(Clone, Debug)]
pub struct RowCells<'a> {
    /// The row.
    pub entry: &'static Entry,
    /// Its runs, by seed.
    pub records: Vec<&'a RunRecord>,
    /// The rounds that the setting had for them, where there are any.
    pub rounds: Option<usize>,
    /// What is scored of each run: all clients, or the novel one alone.
    pub summaries: Vec<Summary>,
}

/// How a row's score compares with FedSI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It is FedSI's.
    Reference,
    /// FedSI is better, by a test.
    Worse,
    /// FedSI is worse, by a test.
    Better,
    /// No difference is established.
    Tied,
    /// Too few seeds for a test, or other runs than FedSI's.
    Untested,
}

impl<'a> SettingCells<'a> {
    /// The cells of every setting.
    #[must_use]
    pub fn all(plan: &'a Plan, results: &'a Results) -> Vec<Self> {
        plan.settings.iter().map(|setting| Self::new(setting, &plan.entries, results)).collect()
    }

    fn new(setting: &'a Setting, entries: &[&'static Entry], results: &'a Results) -> Self {
        let own: Vec<&RunRecord> = results.runs.iter().filter(|run| run.setting == setting.id).collect();
        let mut rounds: BTreeSet<usize> = own.iter().map(|run| run.summary.rounds).collect();
        rounds.insert(setting.rounds);
        let rows: Vec<RowCells<'a>> =
            entries.iter().map(|&entry| RowCells::new(setting, entry, &own, &rounds)).collect();
        let reference = rows.iter().position(|row| row.entry.id == REFERENCE);
        let metrics = rows.iter().flat_map(|row| &row.summaries).next().map(|run| metrics(&run.scores));
        // Other rounds do not compare, and seeds that FedSI has not run yet have nothing to be paired with.
        let compared = reference.and_then(|place| rows[place].rounds).unwrap_or(setting.rounds);
        let seeds: Option<BTreeSet<u64>> = reference
            .map(|place| rows[place].summaries.iter().map(|run| run.seed).collect())
            .filter(|seeds: &BTreeSet<u64>| !seeds.is_empty());
        let is_paired = |run: &&Summary| seeds.as_ref().is_none_or(|seeds| seeds.contains(&run.seed));
        let paired = |row: &RowCells<'_>| -> Vec<Summary> {
            let is_compared = row.rounds == Some(compared) && row.entry.is_ranked();
            let runs = row.summaries.iter().filter(|_| is_compared);
            runs.filter(is_paired).cloned().collect()
        };
        let statistics = SummaryStatistics::of(&rows.iter().map(paired).collect::<Vec<_>>(), reference);
        Self { setting, rows, statistics, metrics: metrics.unwrap_or_default() }
    }

    /// Whether there are any runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.records.is_empty())
    }

    /// The mean of a row's score, and its standard deviation where there are several runs.
    #[must_use]
    pub fn spread(&self, row: usize, score: &str) -> Option<fedsi_metrics::Summary> {
        fedsi_metrics::Summary::of(self.values(row, score))
    }

    /// A row's score in each of its runs.
    #[must_use]
    pub fn values(&self, row: usize, score: &str) -> Vec<f64> {
        self.by_seed(row, score).into_values().collect()
    }

    /// The same by seed.
    #[must_use]
    pub fn by_seed(&self, row: usize, score: &str) -> BTreeMap<u64, f64> {
        let metric = self.metrics.iter().find(|metric| metric.key == score);
        let value = |run: &Summary| Some((run.seed, metric?.value(&run.scores)?));
        self.rows[row].summaries.iter().filter_map(value).collect()
    }

    /// What the statistics say of a row's score.
    #[must_use]
    pub fn result(&self, row: usize, score: &str) -> Option<&MetricResult> {
        self.statistics.results.get(row)?.get(score)
    }

    /// How a row's score compares with FedSI's.
    #[must_use]
    pub fn comparison(&self, row: usize, score: &str) -> Comparison {
        if self.rows[row].entry.id == REFERENCE {
            return Comparison::Reference;
        }
        let Some(difference) = self.result(row, score).and_then(|result| result.difference) else {
            return Comparison::Untested;
        };
        let Some(p) = difference.p_holm else { return Comparison::Untested };
        if p >= LEVEL || !bootstrap_agrees(&difference) {
            return Comparison::Tied;
        }
        if (difference.mean > 0.0) == is_higher_better(score) {
            Comparison::Better
        } else {
            Comparison::Worse
        }
    }

    /// The place of FedSI's row.
    #[must_use]
    pub fn reference(&self) -> Option<usize> {
        self.rows.iter().position(|row| row.entry.id == REFERENCE && !row.records.is_empty())
    }

    /// The rounds of the runs, all rows together, where they are not those of the protocol: for the headings of plots.
    #[must_use]
    pub fn other_rounds(&self) -> Option<String> {
        let rounds: BTreeSet<usize> = self.rows.iter().filter_map(|row| row.rounds).collect();
        let differ = rounds.iter().any(|rounds| *rounds != self.setting.rounds);
        range(&rounds, "round").filter(|_| differ)
    }

    /// How many rows have which rounds, where they are not all those of the protocol: "800 rounds in 4 rows, 60 rounds in 11".
    #[must_use]
    pub fn rows_by_rounds(&self) -> Option<String> {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        let rows = self.rows.iter().filter(|row| row.entry.is_ranked());
        for rounds in rows.filter_map(|row| row.rounds) {
            *counts.entry(rounds).or_default() += 1;
        }
        match counts.len() {
            0 => None,
            1 => range(&counts.into_keys().collect(), "round").filter(|_| self.other_rounds().is_some()),
            _ => {
                let parts = counts.iter().rev().map(|(rounds, rows)| {
                    format!("{} in {}", counted(*rounds, "round"), counted(*rows, "row"))
                });
                Some(parts.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// How many rows are tested against FedSI's by a score.
    #[must_use]
    pub fn tests(&self, score: &str) -> usize {
        let p = |row: usize| self.result(row, score)?.difference?.p_holm;
        (0..self.rows.len()).filter_map(p).count()
    }

    /// Whether a row has runs.
    #[must_use]
    pub fn has_runs(&self, row: usize) -> bool {
        !self.rows[row].records.is_empty()
    }

    /// Whether a row belongs into a figure beside FedSI: one of other rounds would mislead. All do where FedSI has no runs.
    #[must_use]
    pub fn is_drawn(&self, row: usize) -> bool {
        self.reference().is_none_or(|reference| self.rows[row].rounds == self.rows[reference].rounds)
    }

    /// Whether figures have more than one row to show.
    #[must_use]
    pub fn has_several_drawn(&self) -> bool {
        (0..self.rows.len()).filter(|&row| self.has_runs(row) && self.is_drawn(row)).count() > 1
    }

    /// What the runs of nearly every row lack of the protocol, where it is the same for all of them: for the head of a column.
    /// Rows with fewer rounds by design have no say.
    #[must_use]
    pub fn common_shortfall(&self) -> Option<String> {
        let is_asked = |row: &&RowCells<'_>| {
            let source = row.entry.source;
            !(row.records.is_empty() || source.is_pooled() || source == Source::Short)
        };
        let mut all = self.rows.iter().filter(is_asked).map(|row| row.shortfall(self.setting));
        let first = all.next()??;
        all.all(|other| other.as_ref() == Some(&first)).then_some(first)
    }

    /// The ranked rows that have as many rounds as FedSI, and the seeds that all of them have.
    #[must_use]
    pub fn common_seeds(&self) -> (Vec<usize>, BTreeSet<u64>) {
        let rounds = self.reference().and_then(|row| self.rows[row].rounds);
        let is_one = |&row: &usize| {
            let own = &self.rows[row];
            own.rounds.is_some() && own.rounds == rounds && own.entry.is_ranked()
        };
        let rows: Vec<usize> = (0..self.rows.len()).filter(is_one).collect();
        let seeds = |row: &usize| self.rows[*row].summaries.iter().map(|run| run.seed).collect();
        let common = rows.iter().map(seeds).reduce(|all: BTreeSet<u64>, own| &all & &own);
        (rows, common.unwrap_or_default())
    }

    /// The rows that have runs and no rank by a score, so that nobody takes the best of those ranked for the best of all. Not
    /// rows that are never ranked.
    #[must_use]
    pub fn unranked(&self, score: &str) -> Vec<usize> {
        let ranked = self.ranked(score);
        let is_unranked = |&place: &usize| {
            let row = &self.rows[place];
            row.entry.is_ranked() && !(row.records.is_empty() || ranked.contains(&place))
        };
        (0..self.rows.len()).filter(is_unranked).collect()
    }

    /// The rows that are ranked by a score, the best first.
    #[must_use]
    pub fn ranked(&self, score: &str) -> Vec<usize> {
        let mut ranked: Vec<(usize, usize)> =
            (0..self.rows.len()).filter_map(|row| Some((self.result(row, score)?.rank?, row))).collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, row)| row).collect()
    }
}

/// Settings that differ in what is varied alone, together under their common title.
#[must_use]
pub fn by_title<'c, 'a>(
    all: impl IntoIterator<Item = &'c SettingCells<'a>>,
) -> Vec<(&'c str, Vec<&'c SettingCells<'a>>)> {
    let mut groups: Vec<(&str, Vec<&SettingCells<'a>>)> = Vec::new();
    for cells in all {
        let title = cells.setting.title.as_str();
        match groups.iter_mut().find(|group| group.0 == title) {
            Some(group) => group.1.push(cells),
            None => groups.push((title, vec![cells])),
        }
    }
    groups
}

/// "1 to 5 seeds"; none of nothing.
#[must_use]
pub fn range(counts: &BTreeSet<usize>, what: &str) -> Option<String> {
    let (first, last) = (*counts.first()?, *counts.last()?);
    let from = if first < last { format!("{first} to ") } else { String::new() };
    Some(format!("{from}{}", counted(last, what)))
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Of accuracy alone: all other scores are errors.
#[must_use]
pub fn is_higher_better(score: &str) -> bool {
    score == "accuracy"
}

/// Whether the bootstrap, where there is one, excludes 0 on the same side.
fn bootstrap_agrees(difference: &Difference) -> bool {
    difference.bootstrap.is_none_or(|[low, high]| if difference.mean > 0.0 { low > 0.0 } else { high < 0.0 })
}

impl<'a> RowCells<'a> {
    fn new(
        setting: &Setting,
        entry: &'static Entry,
        own: &[&'a RunRecord],
        rounds: &BTreeSet<usize>,
    ) -> Self {
        for &rounds in rounds.iter().rev() {
            let with = Setting { rounds, ..setting.clone() };
            let is_of = |run: &&&RunRecord| {
                run.row == entry.id && run.settings == values(&with, entry, run.summary.seed)
            };
            let mut records: Vec<&RunRecord> = own.iter().filter(is_of).copied().collect();
            if records.is_empty() {
                continue;
            }
            records.sort_by_key(|run| run.summary.seed);
            let summaries = records.iter().map(|run| scored(run, setting)).collect();
            return Self { entry, records, rounds: Some(rounds), summaries };
        }
        Self { entry, records: Vec::new(), rounds: None, summaries: Vec::new() }
    }

    /// How many seeds there are, in words.
    #[must_use]
    pub fn seeds(&self) -> String {
        counted(self.records.len(), "seed")
    }

    /// What is not as the protocol has it: rounds, seeds, clients that could not be scored. None where all is.
    #[must_use]
    pub fn shortfall(&self, setting: &Setting) -> Option<String> {
        // Those of the run itself: where all data is pooled they are fewer.
        let own_rounds = self.records.first().map(|run| run.summary.rounds);
        let rounds = self.rounds.filter(|rounds| *rounds != setting.rounds).and(own_rounds);
        let seeds = self.records.len();
        let coverages = || self.summaries.iter().map(Summary::coverage);
        let scored: usize = coverages().map(|found| found.scored_clients).sum();
        let tested: usize = coverages().map(|found| found.tested_clients).sum();
        let clients = (scored < tested).then(|| format!("{scored} of {tested} clients scored"));
        let rounds = rounds.map(|rounds| counted(rounds, "round"));
        let few = (seeds < setting.seeds || rounds.is_some()).then(|| self.seeds());
        let parts: Vec<String> = rounds.into_iter().chain(few).chain(clients).collect();
        (!parts.is_empty() && seeds > 0).then(|| parts.join(", "))
    }
}

/// A run's summary, of its novel client alone where one was left out.
fn scored(run: &RunRecord, setting: &Setting) -> Summary {
    let mut summary = run.summary.clone();
    if let Some(novel) = setting.novel_client(summary.seed) {
        summary.clients.retain(|client| client.id == novel);
        // Without it there is nothing to score.
        summary.scores =
            summary.clients.first().map_or_else(|| Scores::classification(None), |client| client.scores);
    }
    summary
}
