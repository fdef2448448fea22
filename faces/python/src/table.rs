//! A table of a run, handed to any library that reads Arrow.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array as _, ArrayRef, ArrowPrimitiveType, Float64Array, PrimitiveArray, RecordBatch,
    RecordBatchIterator, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::{Field, Schema, SchemaRef};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyIterator, PyList};
use viaduct_cluster::result::RunResult;
use viaduct_report::{Column, SWEEP_ROW, Values};

/// Name, unit and meaning of a column.
type Described = (String, String, String);

/// What a table is pickled as: name, row, dictionary, columns.
type PyTableState = (String, String, Vec<Described>, Vec<Packed>);

/// A column as bytes, for pickling: the kind of its numbers or texts, whether a row may lack one,
/// the values, and of each row whether it has one where some lack it.
type Packed = (String, bool, Vec<u8>, Option<Vec<bool>>);

/// A table of a run or a sweep, which libraries of data frames read without a copy.
///
/// It has the Arrow PyCapsule interface: `polars.DataFrame(table)`, `pyarrow.table(table)`,
/// `pandas.DataFrame.from_arrow(table)`, and DuckDB by its name in a query. Without any of them,
/// iterating over it gives one dictionary per row.
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
    name: String,
    row: String,
    /// Name, unit and meaning of each column.
    dictionary: Vec<Described>,
    schema: SchemaRef,
    columns: Vec<ArrayRef>,
    row_count: usize,
}

impl Table {
    pub(crate) fn new(table: &'static viaduct_report::Table, result: &RunResult) -> Self {
        let columns = table.columns.iter().cloned().zip(table.values(result));
        Self::described(table.name, table.row, columns)
    }

    pub(crate) fn of_sweep(columns: Vec<(Column, Values)>) -> Self {
        Self::described("sweep", SWEEP_ROW, columns.into_iter())
    }

    fn described(name: &str, row: &str, columns: impl Iterator<Item = (Column, Values)>) -> Self {
        let columns = columns.map(|(column, values)| {
            let Column {
                name,
                unit,
                meaning,
                ..
            } = column;
            let words = (name.into_owned(), unit.to_owned(), meaning.into_owned());
            (words, array(values))
        });
        Self::of(name, row, columns)
    }

    fn of(
        name: &str,
        row: &str,
        described: impl Iterator<Item = (Described, (bool, ArrayRef))>,
    ) -> Self {
        let (mut dictionary, mut fields) = (Vec::new(), Vec::new());
        let mut columns: Vec<ArrayRef> = Vec::new();
        for ((name, unit, meaning), (is_nullable, array)) in described {
            let field = Field::new(&name, array.data_type().clone(), is_nullable);
            let words = [("unit", unit.as_str()), ("meaning", meaning.as_str())];
            fields.push(field.with_metadata(metadata(&words)));
            columns.push(array);
            dictionary.push((name, unit, meaning));
        }
        let schema = Schema::new_with_metadata(fields, metadata(&[("viaduct.row", row)]));
        Self {
            name: name.to_owned(),
            row: row.to_owned(),
            dictionary,
            schema: Arc::new(schema),
            row_count: columns.first().map_or(0, |column| column.len()),
            columns,
        }
    }

    /// The values of a row, by column.
    fn row_at<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        for ((name, ..), column) in self.dictionary.iter().zip(&self.columns) {
            values.set_item(name, value(py, column, row)?)?;
        }
        Ok(values)
    }
}

/// The value of a row as Python has it; `None` where it lacks one.
fn value<'py>(py: Python<'py>, column: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    let any = column.as_any();
    if column.is_null(row) {
        Ok(py.None().into_bound(py))
    } else if let Some(column) = any.downcast_ref::<UInt32Array>() {
        column.value(row).into_bound_py_any(py)
    } else if let Some(column) = any.downcast_ref::<UInt64Array>() {
        column.value(row).into_bound_py_any(py)
    } else if let Some(column) = any.downcast_ref::<Float64Array>() {
        column.value(row).into_bound_py_any(py)
    } else if let Some(column) = any.downcast_ref::<StringArray>() {
        column.value(row).into_bound_py_any(py)
    } else {
        Err(unknown_kind(&column.data_type().to_string()))
    }
}

fn unknown_kind(kind: &str) -> PyErr {
    PyValueError::new_err(format!("columns of {kind} are not known here"))
}

/// A column as bytes.
fn packed(column: &ArrayRef, is_nullable: bool) -> PyResult<Packed> {
    let any = column.as_any();
    let bytes = if let Some(column) = any.downcast_ref::<UInt32Array>() {
        let values = column.values().iter();
        values.flat_map(|value| value.to_le_bytes()).collect()
    } else if let Some(column) = any.downcast_ref::<UInt64Array>() {
        let values = column.values().iter();
        values.flat_map(|value| value.to_le_bytes()).collect()
    } else if let Some(column) = any.downcast_ref::<Float64Array>() {
        let values = column.values().iter();
        values.flat_map(|value| value.to_le_bytes()).collect()
    } else if let Some(column) = any.downcast_ref::<StringArray>() {
        let texts: Vec<Option<&str>> = column.iter().collect();
        serde_json::to_vec(&texts).map_err(|error| PyValueError::new_err(error.to_string()))?
    } else {
        return Err(unknown_kind(&column.data_type().to_string()));
    };
    let has_value = |row| column.is_valid(row);
    let lacking = column.null_count() > 0;
    let valid = lacking.then(|| (0..column.len()).map(has_value).collect());
    Ok((column.data_type().to_string(), is_nullable, bytes, valid))
}

/// What [`packed`] made of a column.
fn unpacked((kind, is_nullable, bytes, valid): Packed) -> PyResult<(bool, ArrayRef)> {
    let array: ArrayRef = match kind.as_str() {
        "UInt32" => primitive::<UInt32Type, 4>(&bytes, valid, u32::from_le_bytes),
        "UInt64" => primitive::<UInt64Type, 8>(&bytes, valid, u64::from_le_bytes),
        "Float64" => primitive::<Float64Type, 8>(&bytes, valid, f64::from_le_bytes),
        "Utf8" => {
            let texts: Vec<Option<String>> = serde_json::from_slice(&bytes).map_err(broken)?;
            Arc::new(StringArray::from(texts))
        }
        other => return Err(unknown_kind(other)),
    };
    Ok((is_nullable, array))
}

fn broken(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("this is no pickled table: {error}"))
}

fn primitive<T: ArrowPrimitiveType, const N: usize>(
    bytes: &[u8],
    valid: Option<Vec<bool>>,
    of: impl Fn([u8; N]) -> T::Native,
) -> ArrayRef {
    let (whole, _) = bytes.as_chunks::<N>();
    let values = whole.iter().map(|bytes| of(*bytes));
    Arc::new(match valid {
        None => PrimitiveArray::<T>::from_iter_values(values),
        Some(valid) => {
            let values = values.zip(valid);
            values
                .map(|(value, is_there)| is_there.then_some(value))
                .collect()
        }
    })
}

fn metadata(words: &[(&str, &str)]) -> HashMap<String, String> {
    let owned = |&(key, text): &(&str, &str)| (key.to_owned(), text.to_owned());
    words.iter().map(owned).collect()
}

/// The column, and whether a row may lack a value.
fn array(values: Values) -> (bool, ArrayRef) {
    match values {
        Values::Number(values) => (false, Arc::new(UInt32Array::from(values))),
        Values::Count(values) => (false, Arc::new(UInt64Array::from(values))),
        Values::Real(values) => (false, Arc::new(Float64Array::from(values))),
        Values::OptionalReal(values) => (true, Arc::new(Float64Array::from(values))),
        Values::OptionalCount(values) => (true, Arc::new(UInt64Array::from(values))),
        Values::Word(values) => (false, Arc::new(StringArray::from(values))),
        Values::Text(values) => (false, Arc::new(StringArray::from(values))),
        Values::OptionalText(values) => (true, Arc::new(StringArray::from(values))),
    }
}

#[pymethods]
impl Table {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// What a row is.
    #[getter]
    fn row(&self) -> &str {
        &self.row
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        let columns = self.dictionary.iter();
        columns.map(|(name, ..)| name.as_str()).collect()
    }

    /// Name, unit and meaning of each column.
    fn dictionary(&self) -> Vec<Described> {
        self.dictionary.clone()
    }

    /// The values of a row by column, rows being numbered from 0.
    fn __getitem__<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyDict>> {
        if row >= self.row_count {
            let rows = self.row_count;
            return Err(PyIndexError::new_err(format!("row {row} of {rows} rows")));
        }
        self.row_at(py, row)
    }

    /// One dictionary per row.
    fn __iter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyIterator>> {
        // By `__getitem__`, until it has no more.
        let py = slf.py();
        let rows = py
            .import("builtins")?
            .getattr("range")?
            .call1((slf.get().row_count,))?;
        let item = slf.getattr("__getitem__")?;
        let mapped = py.import("builtins")?.getattr("map")?.call1((item, rows))?;
        mapped.try_iter()
    }

    /// The first rows, for a notebook.
    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        let py = slf.py();
        let table = slf.get();
        let html = py.import("viaduct._html")?;
        let rows_max: usize = html.getattr("ROWS_MAX")?.extract()?;
        let rows = PyList::empty(py);
        for row in 0..table.row_count.min(rows_max) {
            rows.append(table.row_at(py, row)?.values())?;
        }
        let caption = format!(
            "{}: {} rows, each {}",
            table.name, table.row_count, table.row
        );
        let arguments = (caption, table.columns(), rows);
        html.getattr("table")?.call1(arguments)?.extract()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, PyTableState)> {
        let table = slf.get();
        let fields = table.schema.fields().iter();
        let columns = table.columns.iter().zip(fields);
        let columns = columns.map(|(column, field)| packed(column, field.is_nullable()));
        let columns: Vec<Packed> = columns.collect::<PyResult<_>>()?;
        let state = (
            table.name.clone(),
            table.row.clone(),
            table.dictionary.clone(),
            columns,
        );
        Ok((slf.get_type().getattr("_restored")?, state))
    }

    #[staticmethod]
    fn _restored(
        name: &str,
        row: &str,
        dictionary: Vec<Described>,
        columns: Vec<Packed>,
    ) -> PyResult<Self> {
        let columns: Vec<(bool, ArrayRef)> =
            columns.into_iter().map(unpacked).collect::<PyResult<_>>()?;
        Ok(Self::of(name, row, dictionary.into_iter().zip(columns)))
    }

    /// The columns' names and types as a schema of Arrow's C interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema).map_err(broken)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
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
