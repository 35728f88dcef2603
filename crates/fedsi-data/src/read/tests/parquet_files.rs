//! Parquet tables.

use std::fs;
use std::sync::Arc;

use parquet::basic::{Compression, GzipLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;

use super::*;

const SCHEMA: &str = "message table { OPTIONAL DOUBLE size; OPTIONAL BYTE_ARRAY ward (UTF8); REQUIRED BOOLEAN smokes; \
                      REQUIRED INT32 seen (DATE); REQUIRED INT64 y; }";

/// Forty rows; the first has neither size nor ward.
fn table(compression: Compression) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let there: Vec<i16> = (0..40).map(|row| i16::from(row > 0)).collect();
    while let Some(mut column) = group.next_column().unwrap() {
        match column.untyped() {
            ColumnWriter::DoubleColumnWriter(writer) => {
                let values: Vec<f64> = (1..40).map(|row| f64::from(row) + 0.5).collect();
                writer.write_batch(&values, Some(&there), None).unwrap();
            }
            ColumnWriter::ByteArrayColumnWriter(writer) => {
                let values: Vec<ByteArray> = (1..40).map(|row| ["icu", "er"][row % 2].into()).collect();
                writer.write_batch(&values, Some(&there), None).unwrap();
            }
            ColumnWriter::BoolColumnWriter(writer) => {
                let values: Vec<bool> = (0..40).map(|row| row % 3 == 0).collect();
                writer.write_batch(&values, None, None).unwrap();
            }
            ColumnWriter::Int32ColumnWriter(writer) => {
                let values: Vec<i32> = (0..40).map(|row| 19_700 + row).collect();
                writer.write_batch(&values, None, None).unwrap();
            }
            ColumnWriter::Int64ColumnWriter(writer) => {
                let values: Vec<i64> = (0..40).map(|row| row % 2).collect();
                writer.write_batch(&values, None, None).unwrap();
            }
            _ => panic!("another column"),
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn parquet_tables_are_read_as_the_same_csv_is() {
    let dir = TempDir::new().unwrap();
    let mut text = "size,ward,smokes,seen,y\n".to_owned();
    for row in 0..40 {
        let (size, ward) =
            if row == 0 { (String::new(), "") } else { (format!("{row}.5"), ["icu", "er"][row % 2]) };
        let day = crate::table::day_text(f64::from(19_700 + row as i32));
        text += &format!("{size},{ward},{},{day},{}\n", row % 3 == 0, row % 2);
    }
    fs::write(dir.path().join("t.csv"), text).unwrap();
    let open = |name: &str| {
        open_spec(FilesSpec { target: "y".into(), ..files(dir.path(), name) }, PartitionKind::Iid)
    };
    let expected = open("t.csv").unwrap();
    for compression in
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP(GzipLevel::default())]
    {
        fs::write(dir.path().join("t.parquet"), table(compression)).unwrap();
        let found = open("t.parquet").unwrap();
        assert_eq!(found.table_encoding(), expected.table_encoding());
        for split in [Split::Train, Split::Test] {
            assert_eq!(found.samples(1, split), expected.samples(1, split));
        }
    }
    assert_eq!(
        expected.input_columns().unwrap(),
        ["size", "size (missing)", "ward=er", "ward=icu", "ward (missing)", "smokes", "seen"]
    );
}

#[test]
fn damaged_parquet_files_are_refused() {
    let dir = TempDir::new().unwrap();
    let good = table(Compression::SNAPPY);
    let path = dir.path().join("t.parquet");
    let spec = FilesSpec { target: "y".into(), ..files(dir.path(), "t.parquet") };
    for end in (0..good.len()).step_by(7) {
        fs::write(&path, &good[..end]).unwrap();
        let text = complaint(open_spec(spec.clone(), PartitionKind::Iid));
        assert!(text.contains("t.parquet"), "{text}");
    }
    let mut refused = 0;
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x15;
        fs::write(&path, &bytes).unwrap();
        match open_spec(spec.clone(), PartitionKind::Iid) {
            Ok(_) => {}
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
    assert!(refused > good.len() / 4, "{refused} of {} refused", good.len());
}
