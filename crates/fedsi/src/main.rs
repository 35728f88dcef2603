//! The command line: reads arguments, calls the libraries, prints.

mod args;
mod commands;
mod data_summary;
mod output;
mod output_file;
mod progress;
mod remedy;
mod stop;
mod table;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Arguments, Command};

/// A client's parameters are made on one thread and freed on another, every round: the system's allocator gives that
/// memory back and takes it again, which costs a few percent of a round.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // For the whole process: clients are what runs in parallel, and sums of floats are those of one thread.
    faer::disable_global_parallelism();
    stop::let_large_writes_fail();
    let arguments = Arguments::parse();
    let screen = progress::Screen::new(arguments.quiet);
    progress::log_to(&screen, arguments.verbose);
    let result = match arguments.command {
        Command::Run(run) => commands::run::run(&run, &screen, arguments.json),
        Command::Resume(resume) => commands::resume::resume(&resume, &screen, arguments.json),
        Command::Compare(compare) => commands::compare::compare(&compare, &screen, arguments.json),
        Command::Paper(paper) => commands::paper::paper(&paper, &screen, arguments.json),
        Command::Methods(settings) => commands::methods::methods(&settings, arguments.json),
        Command::Report(report) => commands::report::report(&report, arguments.quiet, arguments.json),
        Command::Data(data) => commands::data::data(data, &screen, arguments.json),
        Command::Config(config) => commands::config::config(&config, arguments.json),
        Command::Predict(predict) => commands::predict::predict(&predict, &screen, arguments.json),
        Command::Score(score) => commands::score::score(&score, &screen, arguments.json),
        Command::List(list) => commands::list::list(&list, arguments.json),
        Command::Ood(ood) => commands::ood::ood(&ood, &screen, arguments.json),
        Command::Calibrate(calibrate) => commands::calibrate::calibrate(&calibrate),
        Command::Laplace(laplace) => commands::laplace::laplace(&laplace, arguments.quiet, arguments.json),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failed(&error),
    }
}
