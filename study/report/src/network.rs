//! A network as a picture: SVG for a page, or one page for a browser that copes with any size.

mod layout;
mod page;
mod svg;

pub use layout::Layout;
pub use page::network_page;
pub use svg::{NETWORK_SVG_NODES_MAX, network_svg};

/// Text within HTML and SVG.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter if letter.is_control() => escaped.push('?'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
