//! The command line: reads arguments, calls the libraries, prints.

mod args;
mod commands;
mod output;
mod progress;
mod stop;
mod table;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let screen = progress::Screen::new(arguments.quiet);
    progress::log_to(&screen, arguments.verbose);
    let result = match arguments.command {
        Command::Run(run) => commands::run::run(&run, &screen, arguments.json),
        Command::Resume(resume) => commands::resume::resume(&resume, &screen, arguments.json),
        Command::Compare(compare) => commands::compare::compare(&compare, &screen, arguments.json),
        Command::Methods(settings) => commands::methods::methods(&settings, arguments.json),
        Command::Report(report) => commands::report::report(&report, arguments.quiet, arguments.json),
        Command::Data(data) => commands::data::data(data, &screen, arguments.json),
        Command::Config(config) => commands::config::config(&config, arguments.json),
        Command::Predict(predict) => commands::predict::predict(&predict, &screen, arguments.json),
        Command::Calibrate(calibrate) => commands::calibrate::calibrate(&calibrate),
        Command::Laplace(laplace) => commands::laplace::laplace(&laplace, arguments.quiet, arguments.json),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failed(&error),
    }
}
