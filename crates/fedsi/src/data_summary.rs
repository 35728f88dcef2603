//! What is used of a table and how, as text of at most 80 columns.

use fedsi_data::{DataSummary, shortened};

use crate::table::hanging;

/// Columns of a terminal that a line may take.
const WIDTH: usize = 80;
/// Letters of a column's name.
const NAME: usize = 24;
/// Columns of a table that are listed one by one; of more only the first.
const MOST_COLUMNS: usize = 40;

/// The columns with kind, missing values and encoding; those left out; what to look at.
pub(crate) fn text(summary: &DataSummary) -> String {
    let [train, test] = summary.rows;
    let mut text = wrapped(
        &format!(
            "{}: {train} rows to train on, {test} to test; {} columns become {} inputs",
            shortened(&summary.file, NAME),
            summary.columns.len(),
            summary.inputs
        ),
        "  ",
    );
    let roles: Vec<String> =
        summary.roles.iter().map(|(role, name)| format!("{role} {}", shortened(name, NAME))).collect();
    text.push_str(&wrapped(&format!("  {}", roles.join(", ")), "  "));
    let name = |name: &str| shortened(name, NAME);
    let widest = summary.columns.iter().take(MOST_COLUMNS).map(|column| name(&column.name).chars().count());
    let width = widest.max().unwrap_or(0).max("column".len());
    let mut line = |cells: [&str; 4]| {
        let space = " ".repeat(width.saturating_sub(cells[0].chars().count()));
        text.push_str(&format!("  {}{space}  {:<8}  {:>7}  {}\n", cells[0], cells[1], cells[2], cells[3]));
    };
    line(["column", "kind", "missing", "encoded as"]);
    for column in summary.columns.iter().take(MOST_COLUMNS) {
        let missing = if column.missing == 0 { "-".to_owned() } else { column.missing.to_string() };
        line([&name(&column.name), column.kind.as_str(), &missing, &column.encoding]);
    }
    if let Some(more) = summary.columns.len().checked_sub(MOST_COLUMNS).filter(|&more| more > 0) {
        text.push_str(&format!(
            "  and {more} more; `fedsi data list --json` with these settings has them all\n"
        ));
    }
    for column in &summary.columns {
        if let Some(note) = &column.note {
            text.push_str(&wrapped(&format!("  {}: {note}", shortened(&column.name, NAME)), "    "));
        }
    }
    for column in &summary.left_out {
        let name = shortened(&column.name, NAME);
        text.push_str(&wrapped(&format!("  left out: {name}, {}", column.why), "    "));
    }
    if !summary.left_out.is_empty() {
        let hint = "  (data.files.columns names the columns to use, whatever they hold; data.files.id one that is shown \
                    beside predictions)";
        text.push_str(&wrapped(hint, "    "));
    }
    for warning in &summary.warnings {
        text.push_str(&wrapped(&format!("  look at: {warning}"), "    "));
    }
    for cell in &summary.first_bad_cells {
        let line = format!(
            "    {}, line {}, column {}: \"{}\"; {}",
            shortened(&cell.file, NAME),
            cell.line,
            shortened(&cell.column, NAME),
            cell.found,
            cell.remedy
        );
        text.push_str(&wrapped(&line, "      "));
    }
    text
}

/// A line broken at spaces, further lines indented; it begins where it did.
fn wrapped(line: &str, indent: &str) -> String {
    hanging(line, WIDTH, line.len() - line.trim_start().len(), indent.len())
}

#[cfg(test)]
mod tests {
    use fedsi_data::table::{ColumnKind, LeftOut, UsedColumn};

    use super::*;

    #[test]
    fn every_line_fits_a_terminal() {
        let column = |name: &str, missing: usize| UsedColumn {
            name: name.to_owned(),
            kind: ColumnKind::Category,
            missing,
            distinct: 7,
            encoding: "50 categories + other + missing".to_owned(),
            note: Some("300 different values, of which 50 are told apart".to_owned()),
        };
        let summary = DataSummary {
            file: "a_table_with_a_long_name_of_its_own.csv".to_owned(),
            rows: [1600, 400],
            inputs: 57,
            roles: vec![("target".to_owned(), "outcome".to_owned())],
            columns: vec![column("a_column_with_a_very_long_name", 1_234_567), column("age", 0)],
            left_out: vec![LeftOut {
                name: "patient_id".to_owned(),
                why: "looks like an identifier ".repeat(6),
            }],
            warnings: vec!["lactate: 3 cells are no number and count as missing ".repeat(3)],
            ..DataSummary::default()
        };
        let text = text(&summary);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let age = text.lines().find(|line| line.starts_with("  age")).unwrap();
        assert_eq!(age, "  age                       category        -  50 categories + other + missing");
    }
}
