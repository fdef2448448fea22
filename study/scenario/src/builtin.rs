//! Studies and presets that the program carries, so that it needs no files.

/// Presets: name, text.
pub(crate) const MODELS: [(&str, &str); 15] = [
    (
        "giganet-clan",
        include_str!("../../../models/giganet-clan.toml"),
    ),
    (
        "giganet-clan-linux",
        include_str!("../../../models/giganet-clan-linux.toml"),
    ),
    ("clan", include_str!("../../../models/clan.toml")),
    ("clan-pio", include_str!("../../../models/clan-pio.toml")),
    ("clan-dma", include_str!("../../../models/clan-dma.toml")),
    (
        "bvia-myrinet",
        include_str!("../../../models/bvia-myrinet.toml"),
    ),
    (
        "kvia-myrinet",
        include_str!("../../../models/kvia-myrinet.toml"),
    ),
    ("m-via", include_str!("../../../models/m-via.toml")),
    (
        "m-via-jumbo",
        include_str!("../../../models/m-via-jumbo.toml"),
    ),
    ("rnic-gen3", include_str!("../../../models/rnic-gen3.toml")),
    ("rnic-gen4", include_str!("../../../models/rnic-gen4.toml")),
    ("rnic-gen5", include_str!("../../../models/rnic-gen5.toml")),
    (
        "gam-myrinet",
        include_str!("../../../models/gam-myrinet.toml"),
    ),
    (
        "am-myrinet",
        include_str!("../../../models/am-myrinet.toml"),
    ),
    ("ideal", include_str!("../../../models/ideal.toml")),
];

/// Presets of networks: name, text.
pub(crate) const NETWORKS: [(&str, &str); 9] = [
    (
        "myrinet",
        include_str!("../../../models/networks/myrinet.toml"),
    ),
    (
        "clan-network",
        include_str!("../../../models/networks/clan-network.toml"),
    ),
    (
        "gigabit-ethernet",
        include_str!("../../../models/networks/gigabit-ethernet.toml"),
    ),
    (
        "infiniband-edr",
        include_str!("../../../models/networks/infiniband-edr.toml"),
    ),
    (
        "infiniband-ndr",
        include_str!("../../../models/networks/infiniband-ndr.toml"),
    ),
    (
        "ethernet-40g",
        include_str!("../../../models/networks/ethernet-40g.toml"),
    ),
    (
        "ethernet-100g",
        include_str!("../../../models/networks/ethernet-100g.toml"),
    ),
    (
        "ethernet-400g",
        include_str!("../../../models/networks/ethernet-400g.toml"),
    ),
    (
        "wan-10ms",
        include_str!("../../../models/networks/wan-10ms.toml"),
    ),
];

/// Studies: name, text.
pub(crate) const STUDIES: [(&str, &str); 9] = [
    (
        "torus-1024",
        include_str!("../../../studies/torus-1024.toml"),
    ),
    ("four-hop", include_str!("../../../studies/four-hop.toml")),
    (
        "back-to-back",
        include_str!("../../../studies/back-to-back.toml"),
    ),
    (
        "prepost-drops",
        include_str!("../../../studies/prepost-drops.toml"),
    ),
    (
        "bus-contention",
        include_str!("../../../studies/bus-contention.toml"),
    ),
    ("speed-up", include_str!("../../../studies/speed-up.toml")),
    (
        "time-shared",
        include_str!("../../../studies/time-shared.toml"),
    ),
    (
        "torus-million",
        include_str!("../../../studies/torus-million.toml"),
    ),
    ("two-hosts", include_str!("../../../studies/two-hosts.toml")),
];

/// The text of a study.
pub(crate) fn study(name: &str) -> Option<&'static str> {
    STUDIES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}
