//! The one JSON object of `viaduct why --critical-path --json`.

use serde::Serialize;
use viaduct_cluster::why::{Doing, Step};
use viaduct_engine::Time;
use viaduct_topology::HostId;

use super::host_name;
use super::object::{Message, message_object};
use super::path::{ExplainedPath, Part};

#[derive(Serialize)]
struct Document<'a> {
    study: &'a str,
    seed: u64,
    version: &'a str,
    digest: String,
    makespan_ps: u64,
    start_ps: u64,
    ranks: u32,
    operations: u64,
    operations_ended: u64,
    parts: Vec<PartObject>,
    ranks_on_path: Vec<RankObject>,
    moving_ps: u64,
    steps: Vec<StepObject<'a>>,
    violations: &'a [String],
}

#[derive(Serialize)]
struct PartObject {
    part: &'static str,
    time_ps: u64,
}

#[derive(Serialize)]
struct RankObject {
    rank: u32,
    host: u32,
    host_name: String,
    computing_ps: u64,
    sending_ps: u64,
    receiving_ps: u64,
}

#[derive(Serialize)]
struct StepObject<'a> {
    kind: &'static str,
    rank: u32,
    host: u32,
    host_name: String,
    begin_ps: u64,
    time_ps: u64,
    waited_ps: u64,
    operation: OperationObject<'a>,
    /// Of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stages: Vec<PartObject>,
}

#[derive(Serialize)]
struct OperationObject<'a> {
    rank: u32,
    number: u32,
    line: Option<u32>,
    label: Option<&'a str>,
    /// As in a GOAL file.
    text: String,
}

/// One JSON object of a critical path, as text that ends with a line feed.
///
/// # Panics
///
/// Never: the types hold nothing that JSON cannot say.
#[must_use]
pub fn critical_path_document(explained: &ExplainedPath<'_>) -> String {
    let path = explained.path;
    let part = |(part, time): (Part, Time)| PartObject {
        part: part.name(),
        time_ps: time.picoseconds(),
    };
    let (ranks, moving) = explained.ranks();
    let ranks = ranks.into_iter().map(|share| RankObject {
        rank: share.rank,
        host: explained.config.adapter_at(share.host).0,
        host_name: host_name(explained.config, HostId(share.host)),
        computing_ps: share.computing.picoseconds(),
        sending_ps: share.sending.picoseconds(),
        receiving_ps: share.receiving.picoseconds(),
    });
    let document = Document {
        study: explained.study,
        seed: explained.config.run.seed,
        version: explained.version,
        digest: format!("{:016x}", path.digest),
        makespan_ps: path.makespan.picoseconds(),
        start_ps: path.start.picoseconds(),
        ranks: path.ranks,
        operations: path.operations.1,
        operations_ended: path.operations.0,
        parts: explained.parts().into_iter().map(part).collect(),
        ranks_on_path: ranks.collect(),
        moving_ps: moving.picoseconds(),
        steps: path
            .steps
            .iter()
            .map(|it| explained.step_object(it))
            .collect(),
        violations: &path.violations,
    };
    serde_json::to_string_pretty(&document).expect("plain numbers and strings") + "\n"
}

impl ExplainedPath<'_> {
    fn step_object<'step>(&self, step: &'step Step) -> StepObject<'step> {
        let operation = &step.operation;
        let (kind, message, stages) = match &step.doing {
            Doing::Compute { .. } => ("compute", None, &[][..]),
            Doing::Post => ("send", None, &[][..]),
            Doing::Message {
                part,
                message,
                stages,
                ..
            } => (*part, Some(*message), stages.as_slice()),
            Doing::Leave => ("leave", None, &[][..]),
            Doing::Local => ("local", None, &[][..]),
            Doing::Copy => ("copy", None, &[][..]),
            Doing::Register => ("register", None, &[][..]),
        };
        let stages = stages.iter().map(|(stage, time)| PartObject {
            part: stage.name(),
            time_ps: time.picoseconds(),
        });
        StepObject {
            kind,
            rank: step.rank,
            host: self.config.adapter_at(step.host).0,
            host_name: host_name(self.config, HostId(step.host)),
            begin_ps: step.begin.picoseconds(),
            time_ps: step.time().picoseconds(),
            waited_ps: step.waited().picoseconds(),
            operation: OperationObject {
                rank: operation.rank,
                number: operation.place,
                line: operation.line,
                label: operation.label.as_deref(),
                text: operation.operation.to_string(),
            },
            message: message.map(|message| message_object(self.config, message)),
            stages: stages.collect(),
        }
    }
}
