//! Keys of presets of networks. Their numbers are keys of [links] and [switches].

use viaduct_network::Sharing;

use crate::section::kinds::{choice, text};
use crate::section::{Setting, section};

section! {
    NetworkHead Optional "preset_network":
        "the head of a preset of networks; its tables are links and switches" {
        name: Setting<String> = text("name of the preset");
        inherits: Setting<String> =
            text("a preset, or a file beside this one, that gives what this one does not")
                .otherwise("nothing: this one gives every number");
        description: Setting<String> = text("the switches and cables, one line").or("");
        source: Setting<String> = text("where its numbers come from, one line").or("");
        level: Setting<Sharing> =
            choice("the level that has what its links do; fluid, max-min and queues fit as well");
    }
}
