//! `fedsi data`.

use std::path::Path;

use fedsi_data::{Datasets, FetchOptions, FetchProgress, Task};
use serde_json::json;

use super::data_export::export;
use crate::args::{CheckArguments, DataArguments, DataCommand, FetchArguments, ListArguments};
use crate::data_summary;
use crate::output::{BadInput, print, print_json};
use crate::progress::Screen;
use crate::table::Table;

pub(crate) fn data(arguments: DataArguments, screen: &Screen, as_json: bool) -> anyhow::Result<()> {
    match arguments.command {
        DataCommand::List(list) if list.partition.is_some() || list.settings.any() => {
            partition(*list, as_json)
        }
        DataCommand::List(_) => list(as_json),
        DataCommand::Fetch(fetch) => download(&fetch, screen, as_json),
        DataCommand::Check(check) => inspect(&check, as_json),
        DataCommand::Export(arguments) => export(&arguments, screen.quiet, as_json),
    }
}

fn list(as_json: bool) -> anyhow::Result<()> {
    let shape = |sides: &[usize]| sides.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
    let datasets = Datasets::builtin();
    // 0 where there is no limit, or the data decides.
    let facts = datasets.iter().map(|dataset| {
        let form = dataset.form();
        let classes = form.map_or(0, |form| match form.task {
            Task::Classification { classes } => classes,
            Task::Regression { .. } => 0,
        });
        let input = form.map_or_else(Vec::new, |form| form.input_shape.to_vec());
        (dataset, input, classes, dataset.samples().unwrap_or((0, 0)))
    });
    if as_json {
        let entries = facts.map(|(dataset, input, classes, (train, test))| {
            json!({
                "name": dataset.name(), "description": dataset.description(), "input": input,
                "classes": classes, "train": train, "test": test, "mirrors": dataset.mirrors(),
            })
        });
        return print_json(&entries.collect::<Vec<_>>());
    }
    let mut table = Table::new(3, ["dataset", "what it is", "input", "classes", "train", "test"]);
    for (dataset, input, classes, (train, test)) in facts {
        let number = |count: usize| if count == 0 { "any".to_owned() } else { count.to_string() };
        table.row([
            dataset.name().to_owned(),
            dataset.description().to_owned(),
            if input.is_empty() { "any".to_owned() } else { shape(&input) },
            number(classes),
            number(train),
            number(test),
        ]);
    }
    let hint = "`fedsi data fetch NAME` downloads one; `fedsi data list --partition labels --dataset NAME` shows who gets what.";
    print(&format!("{table}\n{hint}\n"))
}

/// Who gets how many samples of which class.
fn partition(mut arguments: ListArguments, as_json: bool) -> anyhow::Result<()> {
    if let Some(kind) = arguments.partition {
        arguments.settings.set.push(format!("partition.kind={kind}"));
    }
    let config = arguments.settings.checked()?;
    let federation = config.open_data()?;
    let table = fedsi_data::label_table(federation.as_ref());
    if as_json {
        let clients = table.clients.iter().map(|row| {
            json!({
                "client": row.client, "train": row.samples[0], "test": row.samples[1],
                "train_per_class": row.train, "test_per_class": row.test,
            })
        });
        return print_json(&json!({
            "classes": table.classes, "clients": clients.collect::<Vec<_>>(), "table": federation.data_summary(),
        }));
    }
    let columns = federation.data_summary().map(|summary| data_summary::text(&summary) + "\n");
    print(&format!("{}{table}\n", columns.unwrap_or_default()))
}

fn download(arguments: &FetchArguments, screen: &Screen, as_json: bool) -> anyhow::Result<()> {
    let datasets = Datasets::builtin();
    let dataset = datasets.find(&arguments.name).map_err(|error| BadInput(error.to_string()))?;
    let options = FetchOptions { mirrors: arguments.mirror.clone(), ..FetchOptions::default() };
    let bar = screen.bar(0, "{msg} {wide_bar} {bytes}/{total_bytes}  {bytes_per_sec}, {eta} left");
    let fetched =
        fedsi_data::fetch(dataset.as_ref(), &arguments.data_dir, &options, &mut |progress| match progress {
            FetchProgress::Present { file } => tracing::info!("{file} is there already"),
            FetchProgress::Received { file, done, total } => {
                bar.set_length(total);
                bar.set_position(done);
                bar.set_message(file);
            }
            FetchProgress::Checking { file } => bar.set_message(format!("checking {file}")),
            FetchProgress::Unpacking { file } => bar.set_message(format!("unpacking {file}")),
            // Of no consequence for what is fetched: another mirror follows, or an error.
            FetchProgress::Failed { .. } if screen.quiet => {}
            FetchProgress::Failed { file, mirror, reason } => {
                tracing::warn!("{file} from {mirror}: {reason}");
            }
        });
    bar.finish_and_clear();
    let report = fetched?;
    if as_json {
        let files = report.files.iter().map(|file| json!({ "name": file.name, "mirror": file.mirror }));
        return print_json(&json!({
            "dataset": report.dataset, "folder": report.folder, "files": files.collect::<Vec<_>>(),
        }));
    }
    let mut text = String::new();
    for file in &report.files {
        let origin =
            file.mirror.as_ref().map_or_else(|| "there already".to_owned(), |url| format!("from {url}"));
        text.push_str(&format!("{}: {origin}\n", file.name));
    }
    text.push_str(&format!("{} is in {}\n", report.dataset, report.folder.display()));
    if screen.quiet { Ok(()) } else { print(&text) }
}

fn inspect(arguments: &CheckArguments, as_json: bool) -> anyhow::Result<()> {
    let reports = fedsi_data::check(&arguments.dir);
    if reports.is_empty() {
        return Err(no_dataset(&arguments.dir).into());
    }
    let broken: Vec<String> = reports
        .iter()
        .filter(|report| !report.problems.is_empty())
        .map(|report| report.dataset.clone())
        .collect();
    if as_json {
        let list = reports.iter().map(|report| {
            let splits = report.splits.iter().map(|split| {
                json!({ "name": split.name, "samples": split.samples, "per_class": split.per_class })
            });
            json!({
                "dataset": report.dataset, "folder": report.folder, "input": report.input_shape,
                "official": report.official, "problems": report.problems, "splits": splits.collect::<Vec<_>>(),
            })
        });
        print_json(&list.collect::<Vec<_>>())?;
    } else {
        let text: Vec<String> = reports.iter().map(|report| format!("{report}\n")).collect();
        print(&text.concat())?;
    }
    if broken.is_empty() {
        return Ok(());
    }
    let reason =
        format!("{} cannot be used as it is; `fedsi data fetch` downloads it again", broken.join(", "));
    Err(BadInput(reason).into())
}

fn no_dataset(dir: &Path) -> BadInput {
    let found = if dir.is_dir() { "holds no mnist/, fashion-mnist/ or cifar-10/" } else { "is no folder" };
    BadInput(format!("{} {found}; give the folder that `fedsi data fetch --data-dir` filled", dir.display()))
}
