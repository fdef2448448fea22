//! Studies and model presets: strict TOML with units, errors that point at the place.
