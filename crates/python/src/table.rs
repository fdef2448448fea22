//! A table of a run, handed to any library that reads Arrow.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array as _, ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt32Array,
    UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use viaduct_report::{SWEEP_ROW, SweepColumn, Values};
use viaduct_sim::result::RunResult;

/// A table of a run or a sweep, which libraries of data frames read without a copy.
///
/// It has the Arrow PyCapsule interface: `polars.DataFrame(table)`, `pyarrow.table(table)`,
/// `pandas.DataFrame.from_arrow(table)`, and DuckDB by its name in a query.
///
/// Examples
/// --------
/// >>> import polars
/// >>> import viaduct as via
/// >>> links = via.study("four-hop", set={"traffic.size": "64 B"}).run().links
/// >>> links.dictionary()[0]
/// ('link', '', 'name: from -> to')
/// >>> len(links)
/// 12
/// >>> polars.DataFrame(links).columns == links.columns
/// True
#[pyclass(frozen, module = "viaduct._native")]
#[derive(Debug)]
pub(crate) struct Table {
    name: &'static str,
    row: &'static str,
    /// Name, unit and meaning of each column.
    dictionary: Vec<(String, &'static str, String)>,
    schema: SchemaRef,
    columns: Vec<ArrayRef>,
    row_count: usize,
}

impl Table {
    pub(crate) fn new(table: &'static viaduct_report::Table, result: &RunResult) -> Self {
        let columns = table.columns.iter().zip(table.values(result));
        let columns = columns.map(|(column, values)| {
            let words = (
                column.name.to_owned(),
                column.unit,
                column.meaning.to_owned(),
            );
            (words, values)
        });
        Self::of(table.name, table.row, columns)
    }

    pub(crate) fn of_sweep(columns: Vec<SweepColumn>) -> Self {
        let columns = columns.into_iter().map(|column| {
            let words = (column.name, column.unit, column.meaning);
            (words, column.values)
        });
        Self::of("sweep", SWEEP_ROW, columns)
    }

    fn of(
        name: &'static str,
        row: &'static str,
        described: impl Iterator<Item = ((String, &'static str, String), Values)>,
    ) -> Self {
        let (mut dictionary, mut fields) = (Vec::new(), Vec::new());
        let mut columns: Vec<ArrayRef> = Vec::new();
        for ((name, unit, meaning), values) in described {
            let (data_type, is_nullable, array) = array(values);
            let field = Field::new(&name, data_type, is_nullable);
            let words = [("unit", unit), ("meaning", meaning.as_str())];
            fields.push(field.with_metadata(metadata(&words)));
            columns.push(array);
            dictionary.push((name, unit, meaning));
        }
        let schema = Schema::new_with_metadata(fields, metadata(&[("viaduct.row", row)]));
        Self {
            name,
            row,
            dictionary,
            schema: Arc::new(schema),
            row_count: columns.first().map_or(0, |column| column.len()),
            columns,
        }
    }
}

fn metadata(words: &[(&str, &str)]) -> HashMap<String, String> {
    let owned = |&(key, text): &(&str, &str)| (key.to_owned(), text.to_owned());
    words.iter().map(owned).collect()
}

fn array(values: Values) -> (DataType, bool, ArrayRef) {
    match values {
        Values::Number(values) => (DataType::UInt32, false, Arc::new(UInt32Array::from(values))),
        Values::Count(values) => (DataType::UInt64, false, Arc::new(UInt64Array::from(values))),
        Values::Real(values) => (
            DataType::Float64,
            false,
            Arc::new(Float64Array::from(values)),
        ),
        Values::OptionalReal(values) => (
            DataType::Float64,
            true,
            Arc::new(Float64Array::from(values)),
        ),
        Values::OptionalCount(values) => {
            (DataType::UInt64, true, Arc::new(UInt64Array::from(values)))
        }
        Values::Word(values) => (DataType::Utf8, false, Arc::new(StringArray::from(values))),
        Values::Text(values) => (DataType::Utf8, false, Arc::new(StringArray::from(values))),
        Values::OptionalText(values) => (DataType::Utf8, true, Arc::new(StringArray::from(values))),
    }
}

#[pymethods]
impl Table {
    #[getter]
    const fn name(&self) -> &'static str {
        self.name
    }

    /// What a row is.
    #[getter]
    const fn row(&self) -> &'static str {
        self.row
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        let columns = self.dictionary.iter();
        columns.map(|(name, ..)| name.as_str()).collect()
    }

    /// Name, unit and meaning of each column.
    fn dictionary(&self) -> Vec<(String, &'static str, String)> {
        self.dictionary.clone()
    }

    fn __len__(&self) -> usize {
        self.row_count
    }

    fn __repr__(&self) -> String {
        let columns: Vec<&str> = self.columns();
        format!(
            "<viaduct table {}: {} rows, each {}; columns {}>",
            self.name,
            self.row_count,
            self.row,
            columns.join(", ")
        )
    }

    /// The table as a stream of Arrow's C interface; a requested schema is a wish that may be left
    /// unanswered, and is.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), self.columns.clone());
        let batches = RecordBatchIterator::new([batch], Arc::clone(&self.schema));
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        // Whoever takes the stream leaves an empty one; what nobody took ends with the capsule.
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
