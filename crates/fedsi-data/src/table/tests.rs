//! Sites that agree, rows that are encoded, values that lie outside.

use std::borrow::Cow;

use super::*;

const SETTINGS: SummarySettings = SummarySettings { standardize: true, strict: false, listed: false };

/// A site's rows, cells with commas between.
fn site_with(settings: SummarySettings, names: &str, rows: &[&str]) -> SiteSummary {
    let names: Vec<String> = names.split(',').map(str::to_owned).collect();
    let rows: Vec<Vec<&str>> = rows.iter().map(|row| row.split(',').collect()).collect();
    let cell = |row: usize, column: usize| Cow::Borrowed(rows[row][column]);
    SiteSummary::of(settings, &names, rows.len(), cell, Vec::new())
}

fn site(names: &str, rows: &[&str]) -> SiteSummary {
    site_with(SETTINGS, names, rows)
}

fn encoded(encoding: &TableEncoding, cells: &[&str]) -> Vec<f32> {
    let mut inputs = Vec::new();
    encoding.encode(cells, &mut inputs);
    inputs
}

#[test]
fn every_kind_becomes_inputs_by_hand() {
    let rows = ["1,red,yes,2024-01-01", "3,blue,no,2024-01-03", ",red,,2024-01-05", "5,,yes,2024-01-03"];
    // Three times each: categories of fewer rows are not told.
    let rows = rows.repeat(3);
    let table = TableEncoding::agree(&[site("size,colour,sick,seen", &rows)]).unwrap();
    let names = table.feature_names();
    assert_eq!(
        names,
        [
            "size",
            "size (missing)",
            "colour=blue",
            "colour=red",
            "colour (missing)",
            "sick",
            "sick (missing)",
            "seen"
        ]
    );
    assert_eq!(table.width(), 8);
    // 1, 3, 5: mean 3, variance 8/3. Days 0, 2, 4, 2 after the first: mean 2, variance 2.
    let (size, day) = ((2.0 / (8.0_f64 / 3.0).sqrt()) as f32, (2.0 / 2.0_f64.sqrt()) as f32);
    assert_eq!(encoded(&table, &["5", "red", "no", "2024-01-05"]), [size, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, day]);
    // Missing: the median 3, which is the mean; no category; the share of true, 2 of 3.
    let missing = encoded(&table, &["", "NA", "?", "2024-01-03"]);
    assert_eq!(missing[..5], [0.0, 1.0, 0.0, 0.0, 1.0]);
    assert!((missing[5] - 2.0 / 3.0).abs() < 1e-6 && missing[6..] == [1.0, 0.0]);
    // A category that nobody saw is none of the known ones.
    assert_eq!(encoded(&table, &["3", "green", "yes", "2024-01-03"])[2..5], [0.0, 0.0, 0.0]);
}

#[test]
fn rare_categories_are_other_and_so_are_unknown_ones() {
    let mut rows = vec!["a"; 600];
    rows.extend(["b"; 5]);
    rows.extend(["c", "c", "d"]);
    let table = TableEncoding::agree(&[site("ward", &rows)]).unwrap();
    assert_eq!(table.feature_names(), ["ward=a", "ward=b", "ward (other)"]);
    assert_eq!(encoded(&table, &["c"]), [0.0, 0.0, 1.0]);
    assert_eq!(encoded(&table, &["never seen"]), [0.0, 0.0, 1.0]);
    // A hundredth of all rows is often enough, where it is three rows.
    let few: Vec<String> = (0..40).map(|at| if at < 37 { "a" } else { "rare" }.to_owned()).collect();
    let few: Vec<&str> = few.iter().map(String::as_str).collect();
    assert_eq!(TableEncoding::agree(&[site("ward", &few)]).unwrap().feature_names(), ["ward=a", "ward=rare"]);
}

#[test]
fn at_most_fifty_levels_have_inputs() {
    let rows: Vec<String> = (0..1200).map(|at| format!("level{}", at % 60)).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let table = TableEncoding::agree(&[site("code", &rows)]).unwrap();
    assert_eq!(table.width(), 51);
    assert!(table.columns[0].note.as_deref().is_some_and(|note| note.contains("60 different")), "{table:?}");
}

#[test]
fn messages_of_sites_give_the_same_encoding() {
    let names = "age,ward,when";
    let sites = [
        site(names, &["61.5,icu,2024-01-01", "70.25,icu,2024-02-01", ",icu,2024-03-01"]),
        site(names, &["0.1,er,2023-01-01", "0.2,er,", "44,,2023-01-07", "1e3,icu,2023-05-05"]),
        site(names, &["7,surgery,2022-02-28"]),
    ];
    let direct = TableEncoding::agree(&sites).unwrap();
    let sent: Vec<SiteSummary> =
        sites.iter().map(|site| SiteSummary::from_bytes(&site.to_bytes()).unwrap()).collect();
    assert_eq!(sent, sites);
    assert_eq!(TableEncoding::agree(&sent).unwrap(), direct);
    let text = serde_json::to_string(&direct).unwrap();
    assert_eq!(serde_json::from_str::<TableEncoding>(&text).unwrap(), direct, "it is saved in models");
    let ages = [61.5, 70.25, 0.1, 0.2, 44.0, 1e3, 7.0];
    let mean = ages.iter().sum::<f64>() / 7.0;
    let std = (ages.iter().map(|age| (age - mean).powi(2)).sum::<f64>() / 7.0).sqrt();
    let age = &direct.columns[0];
    assert!((age.mean / mean - 1.0).abs() < 1e-12 && (age.std / std - 1.0).abs() < 1e-12, "{age:?}");
    // Medians 61.5 of 2, 0.2 of 4 and 7 of 1: at 0.2 four of seven are counted.
    assert_eq!(age.fill, 0.2);
}

#[test]
fn numbers_here_and_texts_there_are_categories() {
    let sites = [["1", "2"], ["low", "high"]].map(|two| site("code", &two.repeat(3)));
    let column = TableEncoding::agree(&sites).unwrap().columns.remove(0);
    assert_eq!(column.kind, ColumnKind::Category);
    assert_eq!(column.categories, ["1", "2", "high", "low"]);
    assert!(column.note.is_some_and(|note| note.contains("numbers at 1 sites, texts at 1")));
    // One bad cell among many numbers, at a small site, is just that.
    let sites = [site("code", &["1"; 30]), site("code", &["2", "n/k"])];
    let column = TableEncoding::agree(&sites).unwrap().columns.remove(0);
    assert_eq!((column.kind, column.missing), (ColumnKind::Number, true));
}

#[test]
fn identifiers_and_prose_are_left_out_unless_they_are_named() {
    let row = |at: usize| format!("{at},{},{}x,w{},{}.5", at / 3, at, at % 4, at);
    let rows: Vec<String> = (0..60).map(row).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let names = "count,patient_id,code,ward,weight";
    let table = TableEncoding::agree(&[site(names, &rows)]).unwrap();
    assert_eq!(table.column_names(), ["count", "ward", "weight"]);
    let why: Vec<&str> = table.left_out.iter().map(|column| column.why.as_str()).collect();
    assert_eq!(
        why,
        [
            "looks like an identifier: 20 different numbers in 60 rows",
            "looks like an identifier or free text: 60 different texts in 60 rows"
        ]
    );
    let listed = SummarySettings { listed: true, ..SETTINGS };
    let table = TableEncoding::agree(&[site_with(listed, names, &rows)]).unwrap();
    assert_eq!((table.columns.len(), table.left_out.len()), (5, 0), "what is named is used");
    let prose: Vec<String> =
        (0..40).map(|at| format!("the patient came in at night with pain in place {}", at / 2)).collect();
    let prose: Vec<&str> = prose.iter().map(String::as_str).collect();
    let table = TableEncoding::agree(&[site("notes", &prose)]).unwrap();
    assert!(table.left_out[0].why.contains("free text"), "{table:?}");
    // Small sites have few values: together they have categories, where each has three rows of them.
    let sites: Vec<SiteSummary> = (0..30).map(|_| site("ward", &["a", "b"].repeat(3))).collect();
    assert_eq!(TableEncoding::agree(&sites).unwrap().feature_names(), ["ward=a", "ward=b"]);
    let sites: Vec<SiteSummary> = (0..30).map(|_| site("ward", &["a", "b"])).collect();
    let table = TableEncoding::agree(&sites).unwrap();
    assert!(table.left_out[0].why.starts_with("no text of it is in 3 or more rows of one site"), "{table:?}");
}

/// The same numbers at every site are no more different ones than those of one site.
#[test]
fn values_that_sites_share_are_counted_once() {
    let row = |at: usize| format!("{},{},{},{}", 20 + at % 25, 1000 + at * 37, at % 25, at / 2);
    let rows: Vec<String> = (0..100).map(row).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let names = "mass_index,no_of_steps,lab no,patient id";
    let sites: Vec<SiteSummary> = (0..5).map(|_| site(names, &rows)).collect();
    let table = TableEncoding::agree(&sites).unwrap();
    assert_eq!(table.column_names(), ["mass_index", "no_of_steps", "lab no"]);
    assert_eq!(table.left_out[0].why, "looks like an identifier: at least 50 different numbers in 500 rows");
    // A name that leaves it open identifies where every site has another number in nearly every row.
    let rows: Vec<String> = (0..30).map(|at| (7 * at).to_string()).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let repeats = rows.repeat(2);
    for (name, sites, left_out) in [
        ("lab no", [&rows, &rows], 1),
        ("lab no", [&rows, &repeats], 0),
        ("steps", [&rows, &rows], 0),
        ("", [&rows, &rows], 1),
    ] {
        let table = TableEncoding::agree(&sites.map(|rows| site(name, rows))).unwrap();
        assert_eq!(table.left_out.len(), left_out, "{name}: {table:?}");
    }
    // Sites of few rows, together enough.
    let sites: Vec<SiteSummary> = (0..6).map(|_| site("patient_id", &rows[..8])).collect();
    assert_eq!(TableEncoding::agree(&sites).unwrap().left_out.len(), 1);
}

/// Texts of one or two rows, and those of columns that identify somebody, stay at the site.
#[test]
fn rare_texts_are_not_told() {
    let rows = ["a,x,m1", "a,x,m1", "a,y,m1", "b,y,m2", "b,y,m2", "c,2,m2"];
    let listed = |site: &SiteSummary| -> Vec<Vec<String>> {
        let texts = |column: &ColumnSummary| column.categories.iter().map(|(text, _)| text.clone()).collect();
        site.columns.iter().map(texts).collect()
    };
    let found = site("ward,code,mrn", &rows);
    assert_eq!(listed(&found), [vec!["a".to_owned()], vec!["y".to_owned()], vec![]]);
    assert_eq!(found.columns[0].distinct, 3, "how many there are is told");
    let table = TableEncoding::agree(&[found]).unwrap();
    assert_eq!(table.feature_names(), ["ward=a", "ward (other)", "code=y", "code (other)"]);
    assert!(table.left_out[0].why.contains("identifies somebody"), "{table:?}");
    let named = site_with(SummarySettings { listed: true, ..SETTINGS }, "ward,code,mrn", &rows);
    assert_eq!(listed(&named)[2], ["m1", "m2"], "columns that are named are used");
    // A site of another version that tells rare ones: they have no input of their own.
    let mut told = site("ward", &["a", "a", "a", "b", "c"]);
    told.columns[0].categories.extend([("b".to_owned(), 1), ("c".to_owned(), 1)]);
    assert_eq!(TableEncoding::agree(&[told]).unwrap().feature_names(), ["ward=a", "ward (other)"]);
}

#[test]
fn days_and_months_are_told_apart_where_they_can_be() {
    let column = |rows: &[&str]| TableEncoding::agree(&[site("seen", rows)]).unwrap().columns.remove(0);
    assert!(column(&["03/04/2024", "25/04/2024"]).day_first);
    let month_first = column(&["03/04/2024", "04/25/2024"]);
    assert!(!month_first.day_first && month_first.note.is_none(), "{month_first:?}");
    assert_eq!(month_first.kind, ColumnKind::Date);
    assert!(column(&["03/04/2024", "05/06/2024"]).note.is_some(), "nothing tells");
    assert!(column(&["2024-04-03", "2024-06-05"]).note.is_none());
}

#[test]
fn summaries_that_no_table_has_are_refused() {
    let good = site("age,ward", &["1,a", "2,b", ",a"]);
    let refused = |change: &dyn Fn(&mut SiteSummary)| {
        let mut bad = good.clone();
        change(&mut bad);
        let text = SiteSummary::from_bytes(&bad.to_bytes()).unwrap_err().to_string();
        assert!(text.starts_with("a site's summary of its table: found "), "{text}");
        assert!(TableEncoding::agree(&[good.clone(), bad]).is_err());
    };
    refused(&|bad| bad.columns[0].missing = 4);
    refused(&|bad| bad.columns[0].numbers.count = 9);
    refused(&|bad| bad.columns[0].numbers.std = -1.0);
    refused(&|bad| bad.columns[0].letters = f64::NAN);
    refused(&|bad| bad.columns[1].name = "age".to_owned());
    refused(&|bad| bad.columns[1].categories = vec![("a".to_owned(), u64::MAX), ("b".to_owned(), 2)]);
    refused(&|bad| bad.columns[1].categories = vec![("x".repeat(101), 1)]);
    refused(&|bad| bad.columns[1].booleans = (1, 2));
    for bytes in [&b""[..], b"{}", b"[1,2", b"null", b"\xff"] {
        assert!(SiteSummary::from_bytes(bytes).is_err());
    }
    let other = site("age,unit", &["1,a"]);
    let text = TableEncoding::agree(&[good.clone(), other]).unwrap_err().to_string();
    assert!(text.contains("column \"unit\" at site 1") && text.contains("\"ward\""), "{text}");
    let strict = site_with(SummarySettings { strict: true, ..SETTINGS }, "age,ward", &["1,2"]);
    assert!(TableEncoding::agree(&[good, strict]).is_err());
    assert!(TableEncoding::agree(&[]).is_err());
}

#[test]
fn values_outside_have_reasons() {
    let table = TableEncoding::agree(&[site(
        "lactate,ward,seen,sick",
        &["0.4,icu,2024-01-01,yes", "15,er,2024-01-11,yes"].repeat(3),
    )]);
    let table = table.unwrap();
    let ranges = [
        ColumnRange::Numbers { min: 0.4, max: 15.0 },
        ColumnRange::Categories(vec!["er".to_owned(), "icu".to_owned()]),
        ColumnRange::Dates { min: 19_723.0, max: 19_733.0 },
        ColumnRange::Categories(vec!["true".to_owned()]),
    ];
    let found = |cells: [&str; 4]| {
        let cells = cells.map(str::to_owned);
        outside(&table, &ranges, &cells).into_iter().map(|value| (value.text, value.far)).collect::<Vec<_>>()
    };
    assert_eq!(found(["3", "icu", "2024-01-05", "yes"]), []);
    assert_eq!(found(["", "", "", ""]), [], "missing values are nothing unusual");
    assert_eq!(
        found(["180", "burns", "2025-01-01", "no"]),
        [
            ("lactate 180: training rows 0.4 to 15".to_owned(), true),
            ("ward \"burns\": not among the training rows".to_owned(), false),
            ("seen 2025-01-01: training rows 2024-01-01 to 2024-01-11".to_owned(), false),
            ("sick no: not among the training rows".to_owned(), false),
        ]
    );
    assert!(!found(["16", "icu", "soon", "yes"])[0].1, "just outside");
    assert!(found(["3", "icu", "2044-01-01", "yes"])[0].1, "years later");
    assert!(found(["16", "icu", "soon", "yes"])[1].0.contains("\"soon\": no date"));
}

#[test]
fn an_encoding_from_a_file_is_checked() {
    let good = TableEncoding { columns: vec![ColumnEncoding::number("a")], left_out: Vec::new() };
    assert!(good.is_valid());
    for column in [
        ColumnEncoding { std: 0.0, ..ColumnEncoding::number("a") },
        ColumnEncoding { mean: f64::NAN, ..ColumnEncoding::number("a") },
        ColumnEncoding { categories: vec!["x".to_owned()], ..ColumnEncoding::number("a") },
    ] {
        assert!(!TableEncoding { columns: vec![column], left_out: Vec::new() }.is_valid());
    }
    let twice = vec![ColumnEncoding::number("a"), ColumnEncoding::number("a")];
    assert!(!TableEncoding { columns: twice, left_out: Vec::new() }.is_valid());
}
