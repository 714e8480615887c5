#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints where the members of CPython's internal structures lie, by the headers of the given interpreters: the rows of
# wire/python_layouts.def, and those of launcher/sampling/python_objects.def (PYTHON_OBJECTS).
#
#   scripts/python_layouts.sh [--check] [INCLUDE...]
#
#   INCLUDE    a folder with Python.h; none: those below ~/.pyenv/versions and /usr/include/python3.*
#   --check    compares the rows with the two files instead of printing them
#
# A row is right for every release of its minor version: CPython keeps these structures within one. Exit status of
# --check: 0 equal, 1 different, 77 no headers here.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

check=
if [[ ${1-} == --check ]]; then
  check=1
  shift
fi
shopt -s nullglob
includes=("$@")
cd "$TBPROF_ROOT"
if ((!$#)); then
  for include in ~/.pyenv/versions/*/include/python3.* /usr/include/python3.*; do
    if [[ -f $include/internal/pycore_runtime.h || -f $include/internal/pycore_pystate.h ]]; then includes+=("$include"); fi
  done
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/layout.c" << 'SOURCE'
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#if PY_MINOR_VERSION == 8
#include <internal/pycore_pystate.h>
#else
#include <internal/pycore_runtime.h>
#include <internal/pycore_interp.h>
#endif
#if PY_MINOR_VERSION >= 11
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#endif
#if PY_MINOR_VERSION >= 13
#include <internal/pycore_code.h>
#endif
#define NONE 0xffff
#define ROW(name, offset) printf(" .%s = %zu,", #name, (size_t)(offset))
#define AT(name, type, member) ROW(name, offsetof(type, member))

#if PY_MINOR_VERSION >= 11
typedef _PyInterpreterFrame Frame;
#else
typedef struct _frame Frame;
#endif

/* launcher/sampling/python_gil.h reads both at once. */
_Static_assert(offsetof(struct _gil_runtime_state, locked) == offsetof(struct _gil_runtime_state, last_holder) + 8, "GIL");

int main(void) {
  printf("PYTHON_LAYOUT(.minor = %d,", PY_MINOR_VERSION);
  AT(runtime_interpreters, _PyRuntimeState, interpreters.head);
  AT(runtime_main_thread, _PyRuntimeState, main_thread);
#if PY_MINOR_VERSION == 8
  AT(interpreter_next, struct _is, next);
  AT(interpreter_threads, struct _is, tstate_head);
#elif PY_MINOR_VERSION <= 10
  AT(interpreter_next, PyInterpreterState, next);
  AT(interpreter_threads, PyInterpreterState, tstate_head);
#else
  AT(interpreter_next, PyInterpreterState, next);
  AT(interpreter_threads, PyInterpreterState, threads.head);
#endif
  printf("\n             ");
#if PY_MINOR_VERSION == 8
  AT(runtime_gc, _PyRuntimeState, gc);
  ROW(interpreter_gc, NONE);
#else
  ROW(runtime_gc, NONE);
  AT(interpreter_gc, PyInterpreterState, gc);
#endif
  AT(gc_collecting, struct _gc_runtime_state, collecting);
#if PY_MINOR_VERSION >= 12
  ROW(runtime_gil_holder, NONE);
  AT(interpreter_gil_holder, PyInterpreterState, _gil.last_holder);
#else
  AT(runtime_gil_holder, _PyRuntimeState, ceval.gil.last_holder);
  ROW(interpreter_gil_holder, NONE);
#endif
  printf("\n             ");
  AT(thread_next, PyThreadState, next);
  AT(thread_interpreter, PyThreadState, interp);
#if PY_MINOR_VERSION >= 13
  AT(thread_frame, PyThreadState, current_frame);
#elif PY_MINOR_VERSION >= 11
  AT(thread_frame, PyThreadState, cframe);
#else
  AT(thread_frame, PyThreadState, frame);
#endif
  AT(thread_id, PyThreadState, thread_id);
#if PY_MINOR_VERSION >= 11
  AT(thread_native_id, PyThreadState, native_thread_id);
  AT(thread_chunk, PyThreadState, datastack_chunk);
#else
  ROW(thread_native_id, NONE);
  ROW(thread_chunk, NONE);
#endif
#if PY_MINOR_VERSION == 11 || PY_MINOR_VERSION == 12
  AT(cframe_frame, _PyCFrame, current_frame);
#else
  ROW(cframe_frame, NONE);
#endif
  printf("\n             ");
#if PY_MINOR_VERSION >= 13
  AT(frame_code, Frame, f_executable);
  AT(frame_previous, Frame, previous);
  AT(frame_instruction, Frame, instr_ptr);
  AT(frame_owner, Frame, owner);
#elif PY_MINOR_VERSION >= 11
  AT(frame_code, Frame, f_code);
  AT(frame_previous, Frame, previous);
  AT(frame_instruction, Frame, prev_instr);
  AT(frame_owner, Frame, owner);
#else
  AT(frame_code, Frame, f_code);
  AT(frame_previous, Frame, f_back);
  AT(frame_instruction, Frame, f_lasti);
  ROW(frame_owner, NONE);
#endif
#if PY_MINOR_VERSION >= 11
  AT(frame_size, Frame, localsplus);
#else
  AT(frame_size, Frame, f_blockstack);
#endif
  printf("\n             ");
  AT(code_flags, PyCodeObject, co_flags);
  AT(code_first_line, PyCodeObject, co_firstlineno);
  AT(code_file, PyCodeObject, co_filename);
  AT(code_name, PyCodeObject, co_name);
#if PY_MINOR_VERSION >= 11
  AT(code_qualname, PyCodeObject, co_qualname);
#else
  ROW(code_qualname, NONE);
#endif
#if PY_MINOR_VERSION >= 10
  AT(code_table, PyCodeObject, co_linetable);
#else
  AT(code_table, PyCodeObject, co_lnotab);
#endif
#if PY_MINOR_VERSION >= 11
  AT(code_instructions, PyCodeObject, co_code_adaptive);
#else
  ROW(code_instructions, NONE);
#endif
  AT(code_bytes, PyCodeObject,
#if PY_MINOR_VERSION >= 11
     ob_base.ob_size
#else
     co_code
#endif
  );
  printf("\n             ");
  AT(object_type, PyObject, ob_type);
  AT(type_name, PyTypeObject, tp_name);
  AT(bytes_size, PyBytesObject, ob_base.ob_size);
  AT(bytes_data, PyBytesObject, ob_sval);
  printf("\n             ");
  AT(text_length, PyASCIIObject, length);
  AT(text_state, PyASCIIObject, state);
  ROW(text_ascii, sizeof(PyASCIIObject));
  ROW(text_compact, sizeof(PyCompactUnicodeObject));
  AT(text_data, PyUnicodeObject, data);
  printf(")\n");
  printf("PYTHON_OBJECTS(.minor = %d,", PY_MINOR_VERSION);
#if PY_MINOR_VERSION >= 11
  AT(frame_locals, Frame, localsplus);
#else
  AT(frame_locals, Frame, f_localsplus);
#endif
  AT(type_flags, PyTypeObject, tp_flags);
  AT(type_dict_offset, PyTypeObject, tp_dictoffset);
  AT(type_keys, PyHeapTypeObject, ht_cached_keys);
  AT(dict_keys, PyDictObject, ma_keys);
  AT(dict_values, PyDictObject, ma_values);
  printf("\n              ");
#if PY_MINOR_VERSION >= 11
  AT(keys_size, struct _dictkeysobject, dk_log2_index_bytes);
  AT(keys_kind, struct _dictkeysobject, dk_kind);
  AT(keys_count, struct _dictkeysobject, dk_nentries);
  AT(keys_index, struct _dictkeysobject, dk_indices);
  AT(values_first, struct _dictvalues, values);
#else
  /* Objects/dict-common.h, which is not installed: refcnt, size, lookup, usable, nentries, indices; 8 bytes each. */
  ROW(keys_size, 8);
  ROW(keys_kind, NONE);
  ROW(keys_count, 32);
  ROW(keys_index, 40);
  ROW(values_first, 0);
#endif
#if PY_MINOR_VERSION >= 13
  AT(values_valid, struct _dictvalues, valid);
  ROW(values_before, NONE);
  ROW(dict_before, -MANAGED_DICT_OFFSET);
  ROW(values_within, sizeof(PyObject)); /* _PyObject_InlineValues */
#elif PY_MINOR_VERSION >= 11
  /* _PyObject_ValuesPointer, _PyObject_ManagedDictPointer; _PyObject_DictOrValuesPointer */
  ROW(values_valid, NONE);
  ROW(values_before, (PY_MINOR_VERSION == 11 ? 4 : 3) * sizeof(PyObject *));
  ROW(dict_before, 3 * sizeof(PyObject *));
  ROW(values_within, NONE);
#else
  ROW(values_valid, NONE);
  ROW(values_before, NONE);
  ROW(dict_before, NONE);
  ROW(values_within, NONE);
#endif
  printf(")\n");
#if PY_MINOR_VERSION >= 13
#define DEBUG(name, member) ROW(name, offsetof(_Py_DebugOffsets, member))
  printf("PYTHON_DEBUG_OFFSETS(.minor = %d,", PY_MINOR_VERSION);
  DEBUG(runtime_interpreters, runtime_state.interpreters_head);
  ROW(runtime_main_thread, NONE);
  DEBUG(interpreter_next, interpreter_state.next);
  DEBUG(interpreter_threads, interpreter_state.threads_head);
  printf("\n                    ");
  ROW(runtime_gc, NONE);
  DEBUG(interpreter_gc, interpreter_state.gc);
  DEBUG(gc_collecting, gc.collecting);
  ROW(runtime_gil_holder, NONE);
  DEBUG(interpreter_gil_holder, interpreter_state.gil_runtime_state_holder);
  printf("\n                    ");
  DEBUG(thread_next, thread_state.next);
  DEBUG(thread_interpreter, thread_state.interp);
  DEBUG(thread_frame, thread_state.current_frame);
  DEBUG(thread_id, thread_state.thread_id);
  DEBUG(thread_native_id, thread_state.native_thread_id);
  DEBUG(thread_chunk, thread_state.datastack_chunk);
  ROW(cframe_frame, NONE);
  printf("\n                    ");
  DEBUG(frame_code, interpreter_frame.executable);
  DEBUG(frame_previous, interpreter_frame.previous);
  DEBUG(frame_instruction, interpreter_frame.instr_ptr);
  DEBUG(frame_owner, interpreter_frame.owner);
  DEBUG(frame_size, interpreter_frame.localsplus);
  printf("\n                    ");
  ROW(code_flags, NONE);
  DEBUG(code_first_line, code_object.firstlineno);
  DEBUG(code_file, code_object.filename);
  DEBUG(code_name, code_object.name);
  DEBUG(code_qualname, code_object.qualname);
  DEBUG(code_table, code_object.linetable);
  DEBUG(code_instructions, code_object.co_code_adaptive);
  ROW(code_bytes, NONE);
  printf("\n                    ");
  DEBUG(object_type, pyobject.ob_type);
  DEBUG(type_name, type_object.tp_name);
  DEBUG(bytes_size, bytes_object.ob_size);
  DEBUG(bytes_data, bytes_object.ob_sval);
  printf("\n                    ");
  DEBUG(text_length, unicode_object.length);
  DEBUG(text_state, unicode_object.state);
  DEBUG(text_ascii, unicode_object.asciiobject_size);
  ROW(text_compact, NONE);
  ROW(text_data, NONE);
  printf(")\n");
#endif
  return 0;
}
SOURCE

# One row as a line, without alignment.
compress() { grep -v '^//' | tr -s ' \n' ' ' | sed 's/ PYTHON_/\nPYTHON_/g; s/, *)/)/g; s/ $//'; echo; }

cat wire/python_layouts.def launcher/sampling/python_objects.def | compress > "$work/known"
checked=0
status=0
for include in "${includes[@]}"; do
  gcc -w -I"$include" -I"$include/internal" -idirafter "$(dirname "$include")" -o "$work/layout" "$work/layout.c" || fail "$include: not understood"
  "$work/layout" | sed 's/,)/)/' > "$work/rows"
  if [[ ! $check ]]; then
    cat "$work/rows"
    continue
  fi
  while read -r row; do
    # From 3.14 on the system has the names of threads, and no row is needed.
    [[ $row =~ ^PYTHON_OBJECTS\(\.minor\ =\ (1[4-9]|[2-9][0-9]), ]] && continue
    if ! grep -qxF -- "$row" "$work/known"; then
      echo "$include: wire/python_layouts.def or launcher/sampling/python_objects.def lacks: $row"
      status=1
    fi
    checked=$((checked + 1))
  done < <(compress < "$work/rows" | grep '^PYTHON_')
done
if [[ $check ]]; then
  if ((!checked)); then
    echo "SKIP: no headers of CPython's internals here"
    exit 77
  fi
  echo "python_layouts.sh: $checked rows checked"
fi
exit $status
