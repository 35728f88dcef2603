//! One encoding from the summaries of all sites.

use std::collections::HashMap;

use super::column_kind::ColumnKind;
use super::encoding::{ColumnEncoding, LeftOut, MOST_LEVELS, TableEncoding};
use super::identifier::{may_name_an_identifier, names_an_identifier};
use super::moments::MergedMoments;
use super::site::{ColumnSummary, FEWEST_ROWS, PROSE, SiteSummary, SummarySettings};
use crate::error::{DataError, quoted};
use crate::scale::Scaling;

/// A category has an input of its own where so many rows have it, or a hundredth of all.
const OFTEN: u64 = 5;
/// Values from which on they can be told to be all different.
const ENOUGH: u64 = 20;
/// Values of a site from which on it has a say of its own on a column's kind, and on whether they are all different.
const ENOUGH_AT_A_SITE: u64 = 5;

/// The summaries of sites, merged one after the other. Memory: all different categories that sites list, at most 200 a site
/// and column, and up to twelve numbers a site and column, the moments of its values as numbers and as dates.
#[derive(Debug)]
pub(crate) struct MergedSummaries {
    settings: SummarySettings,
    columns: Vec<MergedColumn>,
    targets: Vec<MergedMoments>,
    sites: usize,
}

/// A column of all sites.
#[derive(Debug, Default)]
struct MergedColumn {
    name: String,
    rows: u64,
    missing: u64,
    numbers: MergedMoments,
    whole: bool,
    booleans: (u64, u64),
    day_first: MergedMoments,
    month_first: MergedMoments,
    /// The site with the most different values: how many they are, and how many values it has. Sites may have the same ones,
    /// so that all sites together have at least as many.
    most_different: (u64, u64),
    /// Sites with values; and of those with enough of them, how many have nearly all different ones, and how many not.
    sites_with_values: u64,
    sites_all_different: u64,
    sites_repeating: u64,
    letters: f64,
    categories: HashMap<String, u64>,
    /// Sites whose values are mostly numbers, mostly dates, and mostly something else.
    sites_of: [u64; 3],
}

impl TableEncoding {
    /// The encoding that follows from the summaries of all sites, the same whatever their order but for the last digits of
    /// means.
    ///
    /// A column is what nine in ten of its values are; where most values of one site are something else, it is a category.
    /// Mean and standard deviation are those of all rows together; a missing value becomes the weighted median of the
    /// sites' medians. Categories with at least 5 rows, or a hundredth of all and at least 3, have an input of their own, at
    /// most 50 a column; only rows of sites that list a category count, which those do where 3 of their rows have it.
    /// Columns that identify rows by their name and values, prose, texts that are all different, and texts of which no site
    /// lists any are left out, unless the columns were named one by one.
    ///
    /// # Errors
    /// No summary, one that no table has, other columns or settings at one site than at the first.
    pub fn agree(summaries: &[SiteSummary]) -> Result<Self, DataError> {
        let Some(first) = summaries.first() else {
            return Err(DataError::Summary {
                found: "none".to_owned(),
                expected: "one of each site".to_owned(),
            });
        };
        let mut merged = MergedSummaries::new(first);
        for summary in summaries {
            merged.add(summary)?;
        }
        Ok(merged.encoding())
    }
}

impl MergedSummaries {
    /// For tables such as this site's, which is not yet added.
    pub(crate) fn new(first: &SiteSummary) -> Self {
        let column = |column: &ColumnSummary| MergedColumn {
            name: column.name.clone(),
            whole: true,
            ..MergedColumn::default()
        };
        Self {
            settings: first.settings,
            columns: first.columns.iter().map(column).collect(),
            targets: vec![MergedMoments::default(); first.targets.len()],
            sites: 0,
        }
    }

    /// Adds a site.
    pub(crate) fn add(&mut self, site: &SiteSummary) -> Result<(), DataError> {
        site.check()?;
        let unlike = |found: String, expected: String| {
            let found = format!("{found} at site {}", self.sites);
            Err(DataError::Summary { found, expected: format!("{expected}, as at site 0") })
        };
        if site.settings != self.settings {
            return unlike(format!("{:?}", site.settings), format!("{:?}", self.settings));
        }
        if (site.columns.len(), site.targets.len()) != (self.columns.len(), self.targets.len()) {
            return unlike(format!("{} columns", site.columns.len()), self.columns.len().to_string());
        }
        let mut pairs = site.columns.iter().zip(&self.columns);
        if let Some((found, expected)) = pairs.find(|(found, expected)| found.name != expected.name) {
            return unlike(format!("column {}", quoted(&found.name)), quoted(&expected.name));
        }
        for (merged, own) in self.columns.iter_mut().zip(&site.columns) {
            merged.add(own, site.rows);
        }
        for (merged, own) in self.targets.iter_mut().zip(&site.targets) {
            merged.add(*own);
        }
        self.sites += 1;
        Ok(())
    }

    /// What all agree on.
    pub(crate) fn encoding(&self) -> TableEncoding {
        let mut encoding = TableEncoding::default();
        for column in &self.columns {
            match column.encoding(self.settings) {
                Ok(column) => encoding.columns.push(column),
                Err(why) => encoding.left_out.push(LeftOut { name: column.name.clone(), why }),
            }
        }
        encoding
    }

    /// Mean and standard deviation of each regression target.
    pub(crate) fn target_scaling(&self) -> Scaling {
        let (mean, std) = self.targets.iter().map(MergedMoments::mean_and_std).unzip();
        Scaling { mean, std }
    }
}

impl MergedColumn {
    fn add(&mut self, own: &ColumnSummary, rows: u64) {
        let present = rows.saturating_sub(own.missing);
        // Texts so far, as far as they count.
        let before = (self.rows - self.missing) as f64;
        if present > 0 {
            self.letters += (own.letters - self.letters) * (present as f64 / (before + present as f64));
        }
        self.rows = self.rows.saturating_add(rows);
        self.missing = self.missing.saturating_add(own.missing);
        self.numbers.add(own.numbers);
        self.whole &= own.whole;
        self.booleans.0 = self.booleans.0.saturating_add(own.booleans.0);
        self.booleans.1 = self.booleans.1.saturating_add(own.booleans.1);
        self.day_first.add(own.day_first);
        self.month_first.add(own.month_first);
        self.most_different = self.most_different.max((own.distinct, present));
        self.sites_with_values += u64::from(present > 0);
        if present >= ENOUGH_AT_A_SITE {
            let all_different = own.distinct.saturating_mul(20) >= present.saturating_mul(19);
            self.sites_all_different += u64::from(all_different);
            self.sites_repeating += u64::from(!all_different);
        }
        for (text, count) in &own.categories {
            let sum = self.categories.entry(text.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        if present >= ENOUGH_AT_A_SITE {
            let days = own.day_first.count.max(own.month_first.count);
            let mostly = |count: u64| count.saturating_mul(2) > present;
            let kind = if mostly(own.numbers.count) { 0 } else { 1 + usize::from(!mostly(days)) };
            self.sites_of[kind] += 1;
        }
    }

    fn present(&self) -> u64 {
        self.rows - self.missing
    }

    /// Different values of all sites, at least: those of one site, or those that are listed.
    fn distinct(&self) -> u64 {
        self.most_different.0.max(self.categories.len() as u64)
    }

    /// The same in words: one site knows how many there are.
    fn distinct_in_words(&self) -> String {
        let least = if self.sites_with_values > 1 { "at least " } else { "" };
        format!("{least}{}", self.distinct())
    }

    /// Whether nearly all values differ at every site that has enough of them.
    fn all_different(&self) -> bool {
        self.present() >= ENOUGH && self.sites_all_different > 0 && self.sites_repeating == 0
    }

    /// How the column becomes inputs, or why it does not.
    fn encoding(&self, settings: SummarySettings) -> Result<ColumnEncoding, String> {
        let present = self.present();
        let mut column = ColumnEncoding::number(&self.name);
        if settings.strict {
            self.set_scale(&mut column, &self.numbers, settings);
            return Ok(column);
        }
        if present == 0 {
            return Err("no training row has a value".to_owned());
        }
        column.missing = self.missing > 0;
        let day_first = self.day_first.count() >= self.month_first.count();
        let days = if day_first { &self.day_first } else { &self.month_first };
        let nearly = |count: u64| count.saturating_mul(10) >= present.saturating_mul(9);
        let [numbers, dates, others] = self.sites_of;
        if nearly(self.numbers.count()) && dates + others == 0 {
            column.missing |= self.numbers.count() < present;
            self.set_scale(&mut column, &self.numbers, settings);
        } else if self.booleans.0 == present {
            column.kind = ColumnKind::Boolean;
            column.fill = self.booleans.1 as f64 / present as f64;
        } else if nearly(days.count()) && numbers + others == 0 {
            (column.kind, column.day_first) = (ColumnKind::Date, day_first);
            column.missing |= days.count() < present;
            self.set_scale(&mut column, days, settings);
            column.note = self.order_note(day_first);
        } else {
            column.kind = ColumnKind::Category;
            if numbers > 0 && dates + others > 0 {
                let texts = dates + others;
                column.note =
                    Some(format!("numbers at {numbers} sites, texts at {texts}: taken as a category"));
            }
            self.set_levels(&mut column);
        }
        match self.identifies(column.kind) {
            Some(why) if !settings.listed => Err(why),
            None if column.kind == ColumnKind::Category
                && column.categories.is_empty()
                && !settings.listed =>
            {
                Err(self.unlisted())
            }
            _ => Ok(column),
        }
    }

    fn set_scale(&self, column: &mut ColumnEncoding, values: &MergedMoments, settings: SummarySettings) {
        if settings.standardize {
            (column.mean, column.std) = values.mean_and_std();
        }
        // Numbers as they are, none of them missing, say nothing of anybody's rows: with privacy that matters.
        if settings.standardize || column.missing {
            column.fill = values.median();
        }
    }

    /// Where no value says which of two numbers is the day.
    fn order_note(&self, day_first: bool) -> Option<String> {
        let both = self.day_first.count() == self.month_first.count();
        // Dates that begin with the year read the same both ways, and agree in their mean.
        let differ = self.day_first.mean_and_std() != self.month_first.mean_and_std();
        (both && differ && day_first)
            .then(|| "dates may be day/month or month/day: read as day/month".to_owned())
    }

    fn set_levels(&self, column: &mut ColumnEncoding) {
        let present = self.present();
        let often =
            |count: u64| count >= FEWEST_ROWS && (count >= OFTEN || count.saturating_mul(100) >= self.rows);
        let mut levels: Vec<(&String, u64)> = self
            .categories
            .iter()
            .map(|(text, &count)| (text, count))
            .filter(|level| often(level.1))
            .collect();
        levels.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        levels.truncate(MOST_LEVELS);
        let kept = levels.iter().fold(0_u64, |sum, level| sum.saturating_add(level.1));
        column.other = kept < present;
        column.categories = levels.into_iter().map(|(text, _)| text.clone()).collect();
        column.categories.sort_unstable();
        if column.categories.is_empty() {
            return;
        }
        if self.distinct() > MOST_LEVELS as u64 && column.note.is_none() {
            column.note = Some(format!(
                "{} different values, of which {} are told apart",
                self.distinct_in_words(),
                column.categories.len()
            ));
        }
    }

    /// Why it is no input: it identifies rows, or is prose.
    fn identifies(&self, kind: ColumnKind) -> Option<String> {
        let (present, distinct) = (self.present(), self.distinct_in_words());
        let (most, of) = self.most_different;
        // A name that says so is enough where values repeat a few times, as patients come again; one that leaves it open is
        // not.
        let named = if names_an_identifier(&self.name) {
            (most >= ENOUGH && most.saturating_mul(5) >= of) || self.all_different()
        } else {
            may_name_an_identifier(&self.name) && self.all_different()
        };
        match kind {
            ColumnKind::Number if self.whole && named => {
                Some(format!("looks like an identifier: {distinct} different numbers in {present} rows"))
            }
            ColumnKind::Category if self.all_different() => Some(format!(
                "looks like an identifier or free text: {distinct} different texts in {present} rows"
            )),
            ColumnKind::Category if named => {
                Some(format!("looks like an identifier: {distinct} different texts in {present} rows"))
            }
            ColumnKind::Category
                if present >= ENOUGH && self.letters >= PROSE && most.saturating_mul(2) >= of =>
            {
                Some(format!("looks like free text: {:.0} letters on average", self.letters))
            }
            _ => None,
        }
    }

    /// Why it is no input though it looks like categories: none has an input of its own.
    fn unlisted(&self) -> String {
        if names_an_identifier(&self.name) {
            "its name says that it identifies somebody, so that sites do not tell its texts: data.files.columns names \
             the columns to use all the same"
                .to_owned()
        } else {
            format!(
                "no text of it is in {FEWEST_ROWS} or more rows of one site: sites do not tell rarer ones"
            )
        }
    }
}
