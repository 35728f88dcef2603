//! Names of data in reports and folders.

use std::collections::HashSet;
use std::path::Path;

use fedsi_fl::Checked;

/// The name of the data in reports.
#[must_use]
pub fn dataset_name(config: &Checked) -> String {
    config.dataset().label(&config.data)
}

/// What somebody's own data is called: the name it was given, or else that of its training file.
#[must_use]
pub fn own_data_title(name: &str, train: &Path) -> String {
    // What 0.2 called all of them is no name.
    if !["", "files"].contains(&name) {
        return name.to_owned();
    }
    let stem = train.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    stem.unwrap_or_else(|| "files".to_owned())
}

/// The dataset and its size as part of a file's name, whatever the data is called.
#[must_use]
pub fn data_label(config: &Checked) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    let dataset: String = dataset_name(config).chars().map(plain).take(80).collect();
    format!("{dataset}-{}", config.data.size)
}

/// What follows `mean`, `deviation` and so on in the names of columns for a regression's targets: nothing where there is
/// one.
#[must_use]
pub fn target_suffixes(config: &Checked, outputs: usize) -> Vec<String> {
    let names: Vec<&str> = config.data.files.target.split(',').map(str::trim).collect();
    match outputs {
        1 => vec![String::new()],
        _ if names.len() == outputs => names.iter().map(|name| format!("_{name}")).collect(),
        _ => (0..outputs).map(|target| format!("_{target}")).collect(),
    }
}

/// Columns for classes of these names, beside columns that are there already: a name that is taken has ` probability`
/// behind it.
#[must_use]
pub fn class_columns<T: AsRef<str>>(names: &[T], taken: &[&str]) -> Vec<String> {
    let mut taken: HashSet<String> = taken.iter().map(|&name| name.to_owned()).collect();
    let column = |name: &T| {
        let mut column = name.as_ref().to_owned();
        while !taken.insert(column.clone()) {
            column.push_str(" probability");
        }
        column
    };
    names.iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_data_has_the_name_of_its_file() {
        let title = |name: &str, train: &str| own_data_title(name, Path::new(train));
        assert_eq!(title("files", "/d/patients.csv"), "patients");
        assert_eq!(title("", "train.csv"), "train");
        assert_eq!(title("ward 7", "/d/patients.csv"), "ward 7");
        assert_eq!(title("files", ""), "files");
    }

    #[test]
    fn names_that_are_taken_are_told_apart() {
        let found = class_columns(&["well", "age", "class", "age probability"], &["age", "class"]);
        assert_eq!(found, ["well", "age probability", "class probability", "age probability probability"]);
    }
}
