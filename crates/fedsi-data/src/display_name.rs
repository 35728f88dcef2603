//! Names from data as a terminal, a table or a page may show them.

/// Letters of a name that are shown; what is written to files for programs is never cut.
const LONGEST: usize = 40;

/// A name from the data as a line of text may show it: characters that would break the line, turn it around or
/// command the terminal become spaces.
#[must_use]
pub fn printable(name: &str) -> String {
    let breaks = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}')
    };
    name.chars().map(|c| if breaks(c) { ' ' } else { c }).collect()
}

/// A name from the data, [printable] and of at most 40 letters: an ellipsis stands for what is left out.
#[must_use]
pub fn display_name(name: &str) -> String {
    shortened(name, LONGEST)
}

/// A name, [printable] and of at most `letters`: an ellipsis stands for what is left out.
#[must_use]
pub fn shortened(name: &str, letters: usize) -> String {
    // What is beyond the letters is never looked at: a name may be a whole file.
    let mut start: String = name.chars().take(letters.saturating_add(1)).collect();
    if start.chars().count() > letters {
        start = start.chars().take(letters.saturating_sub(1)).chain(['…']).collect();
    }
    printable(&start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_command_no_terminal() {
        assert_eq!(printable("a\n\u{1b}[2Jb\u{202e}c\u{9b}d"), "a  [2Jb c d");
        assert_eq!(printable("a\u{200f}b\u{61c}c\u{feff}"), "a b c ");
        assert_eq!(printable("Zoë 李 🙂"), "Zoë 李 🙂");
    }

    #[test]
    fn long_names_are_cut_with_an_ellipsis() {
        let name = display_name(&"ä".repeat(70_000));
        assert_eq!(name, format!("{}…", "ä".repeat(39)));
        assert_eq!(display_name(&"x".repeat(40)), "x".repeat(40));
        assert_eq!([shortened("abc", 2), shortened("", 0), shortened("abc", 0)], ["a…", "", "…"]);
    }
}
