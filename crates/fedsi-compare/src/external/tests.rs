//! Files as texts and bytes, read; and rows against a federation's.

use std::path::Path;

use super::*;

fn text(content: &str) -> Result<ExternalPredictions, ExternalError> {
    csv::read(Path::new("p.csv"), content.as_bytes(), None)
}

fn classes(found: &ExternalPredictions) -> (usize, &[f64], Option<&[u32]>) {
    match &found.values {
        ExternalValues::Classes { classes, probabilities, labels } => {
            (*classes, probabilities, labels.as_deref())
        }
        ExternalValues::Values { .. } => panic!("{found:?}"),
    }
}

#[test]
fn columns_are_known_by_their_names() {
    let found = text("id,client,b,a,target\nx,n,0.25,0.75,a\ny,s,1,0,0\n").unwrap();
    assert_eq!(classes(&found), (2, &[0.25, 0.75, 1.0, 0.0][..], Some(&[1, 0][..])));
    assert_eq!(found.clients.as_deref().unwrap(), ["n", "s"]);
    assert_eq!(found.class_names.as_deref().unwrap(), ["b", "a"]);
    // A class may be a number that is not its place.
    let numbers = text("label,2,1\n1,0.5,0.5\n2,0.5,0.5\n").unwrap();
    assert_eq!(classes(&numbers).2, Some(&[1, 0][..]));
    // Without a truth there is none.
    assert_eq!(classes(&text("a,b\n0.5,0.5\n").unwrap()).2, None);
}

#[test]
fn cells_with_separators_are_quoted() {
    let found = text("label,\"a, b\",c\n\"a, b\",0.5,0.5\n").unwrap();
    assert_eq!(found.class_names.as_deref().unwrap(), ["a, b", "c"]);
    let semicolons = text("label;a;b\na;0.5;0.5\n").unwrap();
    assert_eq!(classes(&semicolons).1, [0.5, 0.5]);
}

/// Reads predictions of a table with this target of the classes `b` and `a` and these inputs.
fn exported(target: &str, inputs: &[&str], content: &str) -> Result<ExternalPredictions, ExternalError> {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let names = ExportedNames::new(texts(&["b", "a"]), texts(&[target]), texts(inputs));
    csv::read(Path::new("p.csv"), content.as_bytes(), Some(&names))
}

#[test]
fn columns_of_an_export_may_stay() {
    let found =
        exported("sick", &["age", "ward"], "client,row,id,sick,age,ward,a,b\nn,7,x,a,50,icu,0.25,0.75\n")
            .unwrap();
    assert_eq!(classes(&found), (2, &[0.75, 0.25][..], Some(&[1][..])));
    assert_eq!(found.class_names.as_deref().unwrap(), ["b", "a"], "in the order of the data");
    assert_eq!(
        (found.rows.as_deref().unwrap()[0].as_str(), found.ids.as_deref().unwrap()[0].as_str()),
        ("7", "x")
    );
    // Names that the table has are the table's.
    let text = "fedsi_client,fedsi_row,sick,client,row,label,a,b\nn,7,b,1,2,3,0.25,0.75\n";
    let found = exported("sick", &["client", "row", "label"], text).unwrap();
    assert_eq!(
        (found.clients.as_deref().unwrap(), found.rows.as_deref().unwrap()),
        (&["n".to_owned()][..], &["7".to_owned()][..])
    );
    assert_eq!(classes(&found).2, Some(&[0][..]));
    // A target that is called as a class is no truth.
    assert_eq!(classes(&exported("a", &["age"], "age,a,b\n50,0.25,0.75\n").unwrap()).2, None);
    let error = exported("sick", &["age"], "age,a,b,c\n50,0.25,0.75,0\n").unwrap_err();
    assert!(
        error.reason.contains("column `c` is neither a class nor a column that `fedsi data export` writes"),
        "{error}"
    );
    let error = exported("sick", &["age"], "age,a,b\n50,x,0.75\n").unwrap_err();
    assert!(error.reason.ends_with("found `x`, expected a probability"), "{error}");
    // fedsi's own table of predictions has its own columns.
    let own = "client,sample,row,label,class,probability,b,a,entropy\nn,0,7,a,b,0.75,0.75,0.25,0.5\n";
    let found = exported("sick", &["row", "label"], own).unwrap();
    assert_eq!((classes(&found).2, found.rows.as_deref().unwrap()), (Some(&[1][..]), &["7".to_owned()][..]));
}

#[test]
fn names_of_methods_and_files() {
    let parsed = ExternalMethod::parse(" my tool = p-{seed}.csv ").unwrap();
    assert_eq!((parsed.name.as_str(), parsed.file.as_str()), ("my tool", "p-{seed}.csv"));
    assert_eq!(parsed.path(7), Path::new("p-7.csv"));
    assert_eq!(parsed.folder(7), "with/my_tool-s7");
    assert!(parsed.absolute().file.starts_with('/') && parsed.absolute().file.ends_with("p-{seed}.csv"));
    for bad in ["", "x", "=f", "x=", "fedsi=f", "FEDSI=f", "../x=f", ".x=f", "a\nb=f"] {
        assert!(ExternalMethod::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn binary_files_are_known_by_their_first_bytes() {
    assert!(!tensors::is_tensor_file(b"") && !tensors::is_tensor_file(b"{\"probabilities\": 1}"));
    let header = b"{}      ";
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    assert!(tensors::is_tensor_file(&bytes));
    bytes[7] = 1;
    assert!(!tensors::is_tensor_file(&bytes), "a header longer than the file");
    assert!(is_table(b"a,b\n1,2") && !is_table(b"a b\n1,2") && !is_table(&[0, 159, b',', b'\n']));
}
