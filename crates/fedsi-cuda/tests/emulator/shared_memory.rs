//! Declarations of shared memory, rewritten for the host: a block's own, found through the thread that runs.

/// The source with every `__shared__` declaration replaced; lines stay where they are. An error says which declaration is
/// not understood: one variable each, inside a function.
pub(super) fn declared_for_host(source: &str) -> Result<String, String> {
    let mut result = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(place) = next_declaration(rest) {
        let (before, from) = rest.split_at(place);
        let end =
            from.find(';').ok_or_else(|| "a `__shared__` declaration without its semicolon".to_owned())?;
        let declaration = &from[..=end];
        result.push_str(before);
        result.push_str(&rewritten(declaration).ok_or_else(|| {
            let line = result.matches('\n').count() + 1;
            format!("kernel.cu line {line}: `{declaration}` is not understood by the emulator: write one variable a declaration")
        })?);
        // The lines that a declaration spanned.
        result.extend(declaration.chars().filter(|&c| c == '\n'));
        rest = &from[end + 1..];
    }
    result.push_str(rest);
    Ok(result)
}

/// Where the next declaration starts (at its `extern`, where there is one), outside of `//` comments.
fn next_declaration(source: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let place = from + source[from..].find("__shared__")?;
        let line_start = source[..place].rfind('\n').map_or(0, |newline| newline + 1);
        if source[line_start..place].contains("//") {
            from = place + 1;
            continue;
        }
        let before = source[..place].trim_end();
        return Some(if before.ends_with("extern") { before.len() - "extern".len() } else { place });
    }
}

/// `[extern] __shared__ [__align__(n)] TYPE NAME[sizes];` for the host.
fn rewritten(declaration: &str) -> Option<String> {
    let dynamic = declaration.starts_with("extern");
    let text = declaration
        .trim_start_matches("extern")
        .trim_start()
        .trim_start_matches("__shared__")
        .trim_end_matches(';');
    let mut text = text.trim().to_owned();
    for keyword in ["__align__", "alignas"] {
        if let Some(start) = text.find(keyword) {
            let close = start + text[start..].find(')')?;
            text.replace_range(start..=close, "");
        }
    }
    let text = text.trim();
    let (front, sizes) = text.split_at(text.find('[').unwrap_or(text.len()));
    let front = front.trim_end();
    let name_start = front.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map(|place| place + 1)?;
    let (kind, name) = (front[..name_start].trim(), &front[name_start..]);
    // A comma outside of angle brackets separates variables.
    if kind.is_empty()
        || name.is_empty()
        || (kind.contains(',') && !kind.contains('<'))
        || sizes.contains(',')
        || text.contains('=')
    {
        return None;
    }
    Some(if dynamic {
        format!("{kind}* {name} = reinterpret_cast<{kind}*>(cuda_emulation::dynamic_shared());")
    } else {
        format!(
            "typedef {kind} {name}_shared_type{sizes}; {name}_shared_type& {name} = cuda_emulation::static_shared<{name}_shared_type>([]() -> \
             const void* {{ static char tag; return &tag; }}(), __LINE__);"
        )
    })
}
