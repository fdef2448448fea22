//! A table of a run, handed to any library that reads Arrow.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use viaduct_report::Values;
use viaduct_sim::result::RunResult;

/// A table in memory.
#[pyclass(frozen, module = "viaduct._native")]
#[derive(Debug)]
pub(crate) struct Table {
    table: &'static viaduct_report::Table,
    schema: SchemaRef,
    columns: Vec<ArrayRef>,
    row_count: usize,
}

impl Table {
    pub(crate) fn new(table: &'static viaduct_report::Table, result: &RunResult) -> Self {
        let values = table.values(result);
        let row_count = values.first().map_or(0, Values::len);
        let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = table
            .columns
            .iter()
            .zip(values)
            .map(|(column, values)| {
                let (data_type, is_nullable, array) = array(values);
                let field = Field::new(column.name, data_type, is_nullable);
                let words = [("unit", column.unit), ("meaning", column.meaning)];
                (field.with_metadata(metadata(&words)), array)
            })
            .unzip();
        let schema = Schema::new_with_metadata(fields, metadata(&[("viaduct.row", table.row)]));
        Self {
            table,
            schema: Arc::new(schema),
            columns,
            row_count,
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
    fn name(&self) -> &'static str {
        self.table.name
    }

    /// What a row is.
    #[getter]
    fn row(&self) -> &'static str {
        self.table.row
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&'static str> {
        self.table
            .columns
            .iter()
            .map(|column| column.name)
            .collect()
    }

    /// Name, unit and meaning of each column.
    fn dictionary(&self) -> Vec<(&'static str, &'static str, &'static str)> {
        let columns = self.table.columns.iter();
        columns
            .map(|column| (column.name, column.unit, column.meaning))
            .collect()
    }

    fn __len__(&self) -> usize {
        self.row_count
    }

    fn __repr__(&self) -> String {
        let columns: Vec<&str> = self.columns();
        format!(
            "<viaduct table {}: {} rows, each {}; columns {}>",
            self.table.name,
            self.row_count,
            self.table.row,
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
