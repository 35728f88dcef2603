//! One agreement from the descriptions of all sites.

use std::collections::{HashMap, HashSet};

use super::agreement::{AgreedData, Agreement};
use super::description::{SiteData, SiteDescription, TableTarget};
use super::form::task_in_words;
use super::message::{MOST_SITES, Message as _, VERSION};
use crate::error::{DataError, quoted};
use crate::federation::Task;
use crate::partition::owned::numbered;
use crate::pool::checked_shape;
use crate::table::{MergedSummaries, SiteSummary};

impl Agreement {
    /// What follows from the descriptions of all sites, which come in the order of their client numbers. Nothing else decides
    /// it: the same descriptions in the same order give the same agreement everywhere. Columns may stand in another order at
    /// every site; inputs are in that of the first. Costs the memory of all categories that sites list.
    ///
    /// # Errors
    /// [`DataError::Site`] that names the site, what it has, what others have, and what to do: no site, two with one name, one
    /// that divided its rows as another client, another kind of data, another shape, task, column, setting or list of classes.
    pub fn of(descriptions: &[SiteDescription]) -> Result<Self, DataError> {
        let Some(first) = descriptions.first().filter(|_| descriptions.len() <= MOST_SITES) else {
            let (found, expected) = (format!("{} of them", descriptions.len()), format!("1 to {MOST_SITES}"));
            return Err(DataError::sites("the descriptions of sites", found, expected, "one of each site"));
        };
        let mut names = HashSet::with_capacity(descriptions.len());
        for (client, site) in descriptions.iter().enumerate() {
            site.check().map_err(|refusal| site.refused(refusal))?;
            if !names.insert(&site.name) {
                let found = "a second site of this name";
                let advice = "give one of them another name, and describe its data again";
                return Err(DataError::site(&site.name, found, "a name of its own", advice));
            }
            if site.client.is_some_and(|own| own as usize != client) {
                let found = format!("rows divided as those of client {}", site.client.unwrap_or_default());
                let expected = format!("as those of client {client}");
                let advice =
                    "hand descriptions over in the order of client numbers, or describe its data again";
                return Err(DataError::site(&site.name, found, expected, advice));
            }
        }
        let (agreed_form, data) = agreed(first, descriptions)?;
        let Form { input_shape, task, class_names, target_scaling } = agreed_form;
        let sites = descriptions.iter().map(|site| site.name.clone()).collect();
        let new = Self { version: VERSION, sites, input_shape, task, class_names, target_scaling, data };
        new.check().map_err(|(found, expected)| {
            DataError::sites(Self::NAME, found, expected, "correct the sites' data, and describe it again")
        })?;
        Ok(new)
    }
}

/// What inputs and targets look like.
struct Form {
    input_shape: Vec<usize>,
    task: Task,
    class_names: Option<Vec<String>>,
    target_scaling: Option<crate::scale::Scaling>,
}

fn agreed(first: &SiteDescription, all: &[SiteDescription]) -> Result<(Form, AgreedData), DataError> {
    match &first.data {
        SiteData::Table { shape, target, .. } => agreed_table(first, all, shape, target),
        SiteData::Named { dataset, input_shape, task, class_names, target_scaling } => {
            same_data(first, all)?;
            let (input_shape, class_names) = (input_shape.clone(), class_names.clone());
            let form = Form { input_shape, task: *task, class_names, target_scaling: target_scaling.clone() };
            Ok((form, AgreedData::Named { dataset: dataset.clone() }))
        }
        SiteData::Arrays { input_shape, task, class_names, pixels } => {
            same_data(first, all)?;
            let (input_shape, class_names) = (input_shape.clone(), class_names.clone());
            let form = Form { input_shape, task: *task, class_names, target_scaling: None };
            Ok((form, AgreedData::Arrays { pixels: *pixels }))
        }
    }
}

/// The error of a site that has something else than the first one.
fn unlike(
    site: &SiteDescription,
    found: String,
    first: &SiteDescription,
    expected: &str,
    advice: &str,
) -> DataError {
    let expected = format!("{expected}, as at site {}", quoted(&first.name));
    DataError::site(&site.name, found, expected, advice)
}

/// Whether all sites have data of one kind, shape and task; what a table adds to that is compared elsewhere.
fn same_data(first: &SiteDescription, all: &[SiteDescription]) -> Result<(), DataError> {
    for site in all {
        if site.data == first.data {
            continue;
        }
        let (found, expected, advice) = difference(&site.data, &first.data);
        return Err(unlike(site, found, first, &expected, advice));
    }
    Ok(())
}

/// What two sites have that is not the same: found, expected, and what to do.
fn difference(found: &SiteData, expected: &SiteData) -> (String, String, &'static str) {
    let kind = |data: &SiteData| match data {
        SiteData::Named { dataset, .. } => format!("the dataset {}", quoted(dataset)),
        SiteData::Arrays { pixels: true, .. } => "images of bytes".to_owned(),
        SiteData::Arrays { pixels: false, .. } => "arrays of numbers".to_owned(),
        SiteData::Table { .. } => "a table".to_owned(),
    };
    if kind(found) != kind(expected) {
        return (kind(found), kind(expected), "give all sites the same config and files of the same kind");
    }
    let form = |data: &SiteData| match data {
        SiteData::Named { input_shape, task, class_names, .. }
        | SiteData::Arrays { input_shape, task, class_names, .. } => {
            Some((input_shape.clone(), *task, class_names.clone()))
        }
        SiteData::Table { .. } => None,
    };
    let (Some(own), Some(other)) = (form(found), form(expected)) else {
        return ("another table".to_owned(), "the same".to_owned(), "give all sites the same config");
    };
    if own.0 != other.0 {
        let (found, expected) = (format!("inputs of shape {:?}", own.0), format!("{:?}", other.0));
        return (found, expected, "bring the inputs of all sites to one shape");
    }
    if own.1 != other.1 {
        let advice = "give all sites the same task, with all classes of the federation";
        return (task_in_words(own.1), task_in_words(other.1), advice);
    }
    if own.2 != other.2 {
        let listed = |names: Option<Vec<String>>| {
            names.map_or_else(|| "no names of classes".to_owned(), |names| classes_in_words(&names))
        };
        return (listed(own.2), listed(other.2), "give all sites the same list of classes, in one order");
    }
    let (found, expected) = ("another scale of targets".to_owned(), "the same scale".to_owned());
    (found, expected, "give all sites the same dataset, seed and partition")
}

fn classes_in_words(names: &[String]) -> String {
    format!("the classes {}", quoted(&names.join(", ")))
}

/// The parts of a description of a table.
fn table_of<'a>(
    site: &'a SiteDescription,
    first: &SiteDescription,
) -> Result<(&'a SiteSummary, &'a TableTarget, &'a [usize]), DataError> {
    match &site.data {
        SiteData::Table { summary, target, shape } => Ok((summary, target, shape)),
        other => {
            let (found, expected, advice) = difference(other, &first.data);
            Err(unlike(site, found, first, &expected, advice))
        }
    }
}

fn agreed_table(
    first: &SiteDescription,
    all: &[SiteDescription],
    shape: &[usize],
    target: &TableTarget,
) -> Result<(Form, AgreedData), DataError> {
    let (pattern, ..) = table_of(first, first)?;
    let mut merged = MergedSummaries::new(pattern);
    for site in all {
        let (summary, own_target, own_shape) = table_of(site, first)?;
        if own_shape != shape {
            let advice = "give all sites the same data.files.shape";
            return Err(unlike(
                site,
                format!("inputs of shape {own_shape:?}"),
                first,
                &format!("{shape:?}"),
                advice,
            ));
        }
        same_target(site, own_target, first, target)?;
        same_columns(site, summary, first, pattern)?;
        merged.add(&in_order(summary, pattern))?;
    }
    let encoding = merged.encoding();
    if encoding.width() == 0 {
        let left_out =
            encoding.left_out.iter().map(|column| format!("{} {}", quoted(&column.name), column.why));
        let found = format!("no column that can be an input: {}", left_out.collect::<Vec<_>>().join(", "));
        let advice = "name the columns to use in data.files.columns";
        return Err(DataError::sites("the tables of all sites", found, "at least one", advice));
    }
    let input_shape = checked_shape(shape, &[encoding.width()])?;
    let settings = pattern.settings;
    let (task, class_names, targets, target_scaling) = match target {
        TableTarget::Classes { column, .. } => {
            let names = agreed_classes(first, all)?;
            (Task::Classification { classes: names.len() }, Some(names), vec![column.clone()], None)
        }
        TableTarget::Numbers { columns } => {
            let scaling = settings.standardize.then(|| merged.target_scaling());
            (Task::Regression { outputs: columns.len() }, None, columns.clone(), scaling)
        }
    };
    let form = Form { input_shape, task, class_names, target_scaling };
    Ok((form, AgreedData::Table { settings, targets, encoding }))
}

/// Whether two sites predict the same.
fn same_target(
    site: &SiteDescription,
    own: &TableTarget,
    first: &SiteDescription,
    expected: &TableTarget,
) -> Result<(), DataError> {
    let words = |target: &TableTarget| match target {
        TableTarget::Classes { column, .. } => format!("classes in column {}", quoted(column)),
        TableTarget::Numbers { columns } => format!("numbers in column {}", quoted(&columns.join(", "))),
    };
    if words(own) != words(expected) {
        let advice = "give all sites the same data.files.task and data.files.target";
        return Err(unlike(site, words(own), first, &words(expected), advice));
    }
    let (
        TableTarget::Classes { names, listed, .. },
        TableTarget::Classes { names: expected, listed: expected_listed, .. },
    ) = (own, expected)
    else {
        return Ok(());
    };
    let differ = listed != expected_listed || (*listed && names != expected);
    if !differ {
        return Ok(());
    }
    let words = |listed: bool, names: &[String]| {
        if listed { classes_in_words(names) } else { "no list of classes".to_owned() }
    };
    let advice = "give all sites the same data.files.classes, in one order";
    Err(unlike(site, words(*listed, names), first, &words(*expected_listed, expected), advice))
}

/// Whether two sites have the same columns under the same settings.
fn same_columns(
    site: &SiteDescription,
    own: &SiteSummary,
    first: &SiteDescription,
    expected: &SiteSummary,
) -> Result<(), DataError> {
    if own.settings != expected.settings {
        let words = |summary: &SiteSummary| {
            let settings = summary.settings;
            format!(
                "data.files.standardize={}, strict={} and columns {}",
                settings.standardize,
                settings.strict,
                if settings.listed { "listed" } else { "not listed" }
            )
        };
        let advice = "give all sites the same config";
        return Err(unlike(site, words(own), first, &words(expected), advice));
    }
    let named = |summary: &SiteSummary| -> HashSet<String> {
        summary.columns.iter().map(|column| column.name.clone()).collect()
    };
    let (own_names, expected_names) = (named(own), named(expected));
    let advice =
        "give the tables of all sites the same columns, or list those that all have in data.files.columns";
    if let Some(lacking) = expected.columns.iter().find(|column| !own_names.contains(&column.name)) {
        let found = format!("no column {}", quoted(&lacking.name));
        return Err(unlike(site, found, first, "one", advice));
    }
    if let Some(more) = own.columns.iter().find(|column| !expected_names.contains(&column.name)) {
        let found = format!("column {}", quoted(&more.name));
        return Err(unlike(site, found, first, "no such column", advice));
    }
    Ok(())
}

/// A summary with its columns in the order of another one, which has the same.
fn in_order(summary: &SiteSummary, pattern: &SiteSummary) -> SiteSummary {
    let mut own: HashMap<&str, _> =
        summary.columns.iter().map(|column| (column.name.as_str(), column)).collect();
    let columns = pattern.columns.iter().filter_map(|column| own.remove(column.name.as_str()).cloned());
    SiteSummary { columns: columns.collect(), targets: summary.targets.clone(), ..*summary }
}

/// The classes of all sites, in the order in which one table of all rows would have them.
fn agreed_classes(first: &SiteDescription, all: &[SiteDescription]) -> Result<Vec<String>, DataError> {
    let own = |site: &SiteDescription| match &site.data {
        SiteData::Table { target: TableTarget::Classes { names, listed, .. }, .. } => {
            (names.clone(), *listed)
        }
        _ => (Vec::new(), false),
    };
    if let (names, true) = own(first) {
        return Ok(names);
    }
    let (names, _) = numbered(&all.iter().flat_map(|site| own(site).0).collect::<Vec<_>>());
    let place: HashMap<&String, usize> = names.iter().enumerate().map(|(at, name)| (name, at)).collect();
    for site in all {
        let (own, _) = own(site);
        // Test rows are drawn class by class: under another order a site would draw others than it described.
        if !own.is_sorted_by_key(|name| place.get(name).copied()) {
            let expected =
                format!("the order that they have with those of all sites, {}", quoted(&names.join(", ")));
            let advice =
                "numbers and other texts are mixed: list the classes in data.files.classes at all sites";
            return Err(DataError::site(&site.name, classes_in_words(&own), expected, advice));
        }
    }
    Ok(names)
}
