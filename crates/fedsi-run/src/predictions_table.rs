//! `predictions.csv`: the test predictions of a run as a table that a person can open, each traced to its row.

use std::io;

use fedsi_data::{Federation, Split, Task, csv_text};
use fedsi_fl::client::Predictions;
use fedsi_metrics::{HALF_WIDTH_95, entropy};

use crate::naming::class_columns;
use crate::predictions_file::most_probable;

/// The file's name.
pub const PREDICTIONS_TABLE: &str = "predictions.csv";

/// The column of how strange rows are.
const STRANGENESS: &str = "strangeness";

/// A number as a person reads it: six significant digits, with an exponent where it is tiny or huge.
#[must_use]
pub fn six_digits(value: f64) -> String {
    // Rounded in decimal digits first, so that what is left has a short form.
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    let text = format!("{:?}", if rounded == 0.0 { 0.0 } else { rounded });
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Everything that the file is made of.
pub(crate) struct PredictionsTable<'a> {
    pub(crate) federation: &'a dyn Federation,
    pub(crate) predictions: &'a Predictions,
    /// The client that each prediction belongs to: client after client, each client's samples in their order.
    pub(crate) owners: &'a [usize],
    /// How strange each sample is to its client's model; NaN where that is not known.
    pub(crate) strangeness: &'a [f64],
    /// What follows `target`, `mean` and so on in the names of a regression's columns, one an output.
    pub(crate) suffixes: &'a [String],
}

impl PredictionsTable<'_> {
    /// Writes the table, a row at a time. Memory: a row.
    pub(crate) fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        let has = |client: usize| self.federation.row_numbers(client, Split::Test).is_some();
        let numbered = self.owners.first().is_some_and(|&first| has(first));
        let identified = self.first_row().is_some_and(|row| self.federation.row_id(row).is_some());
        let mut header: Vec<String> = ["client", "sample"].map(str::to_owned).into();
        header.extend(numbered.then(|| "row".to_owned()));
        header.extend(identified.then(|| "id".to_owned()));
        match self.federation.task() {
            Task::Classification { classes } => {
                header.extend(["label", "class", "probability"].map(str::to_owned));
                let taken: Vec<&str> =
                    header.iter().map(String::as_str).chain(["entropy", STRANGENESS, "row", "id"]).collect();
                let columns = class_columns(&self.class_names(classes), &taken);
                header.extend(columns);
                header.push("entropy".to_owned());
            }
            Task::Regression { .. } => {
                for suffix in self.suffixes {
                    let names = ["target", "mean", "deviation", "low", "high"];
                    header.extend(names.map(|name| format!("{name}{suffix}")));
                }
            }
        }
        header.push(STRANGENESS.to_owned());
        writer.write_record(header.iter().map(|name| csv_text(name).into_owned()))?;
        let mut first_of_client = 0;
        for (at, &client) in self.owners.iter().enumerate() {
            if self.owners[first_of_client] != client {
                first_of_client = at;
            }
            let sample = at - first_of_client;
            let row = self.federation.row_numbers(client, Split::Test).and_then(|rows| rows.get(sample));
            let name = self.federation.client_name(client).map(|name| csv_text(name).into_owned());
            let mut cells = vec![name.unwrap_or_else(|| client.to_string()), sample.to_string()];
            if numbered {
                cells.push(row.map(ToString::to_string).unwrap_or_default());
            }
            if identified {
                let id = row.and_then(|&row| self.federation.row_id(row));
                cells.push(id.map(|id| csv_text(&id).into_owned()).unwrap_or_default());
            }
            self.prediction(at, &mut cells);
            let score = self.strangeness.get(at).copied().filter(|score| score.is_finite());
            cells.push(score.map(six_digits).unwrap_or_default());
            writer.write_record(&cells)?;
        }
        writer.flush()
    }

    /// The row of the first sample, where samples are rows of something.
    fn first_row(&self) -> Option<u32> {
        let rows = self.federation.row_numbers(*self.owners.first()?, Split::Test)?;
        rows.first().copied()
    }

    fn class_names(&self, classes: usize) -> Vec<String> {
        match self.federation.class_names() {
            Some(names) => names.to_vec(),
            None => (0..classes).map(|class| class.to_string()).collect(),
        }
    }

    /// What is true and what is predicted.
    fn prediction(&self, at: usize, cells: &mut Vec<String>) {
        match self.predictions {
            Predictions::Classes { classes, probabilities, labels } => {
                let own = &probabilities[at * classes..(at + 1) * classes];
                let (class, probability) = most_probable(own);
                let names = self.federation.class_names();
                let name = |class: usize| match names.and_then(|names| names.get(class)) {
                    Some(name) => csv_text(name).into_owned(),
                    None => class.to_string(),
                };
                cells.extend([name(labels[at] as usize), name(class), six_digits(f64::from(probability))]);
                cells.extend(own.iter().map(|&one| six_digits(f64::from(one))));
                cells.push(six_digits(entropy(own)));
            }
            Predictions::Values { outputs, mean, variance, targets } => {
                for place in at * outputs..(at + 1) * outputs {
                    let (mean, deviation) = (mean[place], variance[place].sqrt());
                    let half = HALF_WIDTH_95 * deviation;
                    let numbers = [targets[place], mean, deviation, mean - half, mean + half];
                    cells.extend(numbers.map(six_digits));
                }
            }
        }
    }
}

/// How strange each row of such a file is, to six digits; NaN where that is not known.
///
/// # Errors
/// Bytes that are no such file.
pub fn read_strangeness_column(bytes: &[u8]) -> Result<Vec<f64>, csv::Error> {
    let mut reader = csv::Reader::from_reader(bytes);
    let column = reader.headers()?.iter().position(|name| name == STRANGENESS);
    let mut found = Vec::new();
    for record in reader.records() {
        let record = record?;
        let cell = column.and_then(|column| record.get(column)).unwrap_or_default();
        found.push(cell.parse().unwrap_or(f64::NAN));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_are_kept_and_no_more() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (0.123_456_789, "0.123457"),
            (123_456.789, "123457"),
            (1_234_567.0, "1234570"),
            (-2.5, "-2.5"),
            (1.0 / 3.0, "0.333333"),
            (1e-7, "1e-7"),
            (3.0e20, "3e20"),
            (0.999_999_9, "1"),
        ] {
            assert_eq!(six_digits(value), text);
        }
    }
}
