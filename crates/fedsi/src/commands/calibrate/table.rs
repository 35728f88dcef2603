//! The scores for a terminal of 80 columns.

use fedsi_data::shortened;
use fedsi_fl::scores::Scores;

use super::Scored;
use crate::table::Table;

/// Clients shown one by one; of more, the worst.
const MAX_CLIENTS: usize = 20;

/// Letters of a client's name.
const NAME: usize = 24;

impl Scored<'_> {
    pub(super) fn table(&self) -> String {
        let mut text = format!("{} predictions\n\n{}", self.samples, scores(&self.scores));
        let bins = self.reliability();
        if !bins.is_empty() {
            let mut table =
                Table::new(0, ["confidence", "predictions", "share", "mean confidence", "accuracy", "gap"]);
            for bin in &bins {
                let share = bin.count as f64 / self.samples as f64;
                table.row([
                    format!("{:.2} to {:.2}", bin.lo, bin.hi),
                    bin.count.to_string(),
                    format!("{:.1}%", 100.0 * share),
                    format!("{:.4}", bin.confidence),
                    format!("{:.4}", bin.accuracy),
                    format!("{:+.4}", bin.confidence - bin.accuracy),
                ]);
            }
            text.push_str(&format!(
                "\n{table}gap: mean confidence less accuracy; above 0 is overconfident\n"
            ));
        }
        if !self.clients.is_empty() {
            text.push_str(&self.clients());
        }
        text
    }

    /// A row a client; of many, those with the highest NLL.
    fn clients(&self) -> String {
        let mut order: Vec<usize> = (0..self.clients.len()).collect();
        let is_all = order.len() <= MAX_CLIENTS;
        if !is_all {
            let nll = |&place: &usize| self.clients[place].scores.nll().unwrap_or(f64::NEG_INFINITY);
            order.sort_by(|a, b| nll(b).total_cmp(&nll(a)));
            order.truncate(MAX_CLIENTS);
        }
        let names: &[&str] = match self.scores {
            Scores::Classification { .. } => {
                &["client", "samples", "accuracy", "ECE", "floor", "Brier", "NLL"]
            }
            Scores::Regression { .. } => &["client", "samples", "RMSE", "MAE", "NLL", "in 90%"],
        };
        let mut table = Table::new(1, names.iter().copied());
        for place in order {
            let client = &self.clients[place];
            let mut cells = vec![shortened(&client.name, NAME), client.samples.to_string()];
            cells.extend(client_cells(&client.scores));
            table.row(cells);
        }
        let more = if is_all {
            String::new()
        } else {
            format!(
                "the {MAX_CLIENTS} of {} clients with the highest NLL; without --table: all, as JSON\n",
                self.clients.len()
            )
        };
        format!("\n{table}{more}")
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"))
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{:.2}%", 100.0 * value))
}

fn client_cells(scores: &Scores) -> Vec<String> {
    match *scores {
        Scores::Classification { accuracy, ece, ece_floor, brier, nll, .. } => {
            vec![share(accuracy), number(ece), number(ece_floor), number(brier), number(nll)]
        }
        Scores::Regression { rmse, mae, nll, coverage_90, .. } => {
            vec![number(rmse), number(mae), number(nll), share(coverage_90)]
        }
    }
}

/// A line a score, with what it is.
fn scores(scores: &Scores) -> Table {
    let mut table = Table::new(1, ["score", "value"]);
    let rows = match *scores {
        Scores::Classification {
            accuracy,
            ece,
            mce_1pct,
            brier,
            nll,
            aurc,
            ece_floor,
            ece_floor_std,
            balanced_accuracy,
            ..
        } => vec![
            ("accuracy", share(accuracy)),
            ("balanced accuracy", share(balanced_accuracy)),
            ("ECE", number(ece)),
            ("ECE by chance alone", format!("{} ± {}", number(ece_floor), number(ece_floor_std))),
            ("MCE of bins with 1%", number(mce_1pct)),
            ("Brier", number(brier)),
            ("NLL", number(nll)),
            ("AURC", number(aurc)),
        ],
        Scores::Regression { rmse, mae, nll, coverage_50, coverage_80, coverage_90, coverage_95 } => vec![
            ("RMSE", number(rmse)),
            ("MAE", number(mae)),
            ("NLL", number(nll)),
            ("in the 50% interval", share(coverage_50)),
            ("in the 80% interval", share(coverage_80)),
            ("in the 90% interval", share(coverage_90)),
            ("in the 95% interval", share(coverage_95)),
        ],
    };
    for (name, value) in rows {
        table.row([name.to_owned(), value]);
    }
    table
}
