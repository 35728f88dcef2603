//! Columns whose names say that they identify a row, or whose row it is.

/// Words that say that a column identifies something.
const IDENTIFIERS: [&str; 9] = ["id", "ids", "uuid", "guid", "mrn", "ssn", "pid", "identifier", "rownum"];

/// Last words that may say so, and may say a number of something: case no, but also body mass index.
const NUMBERS: [&str; 5] = ["index", "nr", "no", "number", "key"];

/// Words before one of those that say who is numbered.
const NUMBERED: [&str; 8] =
    ["patient", "case", "subject", "record", "person", "user", "customer", "specimen"];

/// Words before `id` that stand without a separator, as in patientid.
const IDENTIFIED: [&str; 16] = [
    "patient",
    "case",
    "subject",
    "record",
    "row",
    "person",
    "user",
    "customer",
    "visit",
    "encounter",
    "sample",
    "study",
    "admission",
    "stay",
    "order",
    "specimen",
];

/// Words that say whose row it is.
const CLIENTS: [&str; 16] = [
    "client",
    "site",
    "hospital",
    "clinic",
    "centre",
    "center",
    "institution",
    "institute",
    "organisation",
    "organization",
    "facility",
    "provider",
    "node",
    "silo",
    "branch",
    "station",
];

/// Whether a column's name says that it identifies rows or people: a whole word such as id or mrn, patientid, case no.
pub(super) fn names_an_identifier(name: &str) -> bool {
    let words = words(name);
    let together = |word: &String| word.strip_suffix("id").is_some_and(|start| IDENTIFIED.contains(&start));
    let numbered = |pair: &[String]| {
        NUMBERED.contains(&pair[0].as_str()) && NUMBERS.contains(&pair[1].as_str()) && pair[1] != "index"
    };
    words.iter().any(|word| IDENTIFIERS.contains(&word.as_str()) || together(word))
        || words.windows(2).any(numbered)
}

/// Whether a column's name leaves it open: it ends with a word such as index or no, or there is none. Tables are often
/// written with a first column of row numbers that has no name.
pub(super) fn may_name_an_identifier(name: &str) -> bool {
    let words = words(name);
    let (first, last) = (words.first().map(String::as_str), words.last().map(String::as_str));
    last.is_none_or(|last| NUMBERS.contains(&last)) || first == Some("unnamed")
}

/// Whether a column's name says whose row it is.
pub(super) fn names_a_client(name: &str) -> bool {
    words(name).iter().any(|word| CLIENTS.contains(&word.as_str()))
}

/// The words of a name in lower case: `PatientID`, `patient_id` and `patient id` have two.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut open, mut lower) = (false, false);
    for letter in name.chars() {
        if !letter.is_alphanumeric() {
            open = false;
            continue;
        }
        if !open || (lower && letter.is_uppercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(letter.to_lowercase());
        }
        (open, lower) = (true, letter.is_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_identifiers_and_clients() {
        for name in
            ["id", "patient_id", "PatientID", "patientid", "MRN", "row id", "case.no", "Patient Number"]
        {
            assert!(names_an_identifier(name), "{name}");
        }
        for name in ["Unnamed: 0", "", "index", "lab_no", "mass_index", "serial number"] {
            assert!(may_name_an_identifier(name) && !names_an_identifier(name), "{name}");
        }
        for name in ["acid", "width", "age", "candidate", "paid", "nose", "dose", "no_of_steps", "key figure"]
        {
            assert!(!names_an_identifier(name) && !may_name_an_identifier(name), "{name}");
        }
        assert!(names_a_client("hospital") && names_a_client("Site name") && !names_a_client("website"));
    }
}
