// SPDX-License-Identifier: Apache-2.0
//
// Records of CUPTI as lines of text, for the checks to compare profiles with. By the prefixes that no version has
// moved.
//
//   K CORRELATION START END GRAPH_NODE NAME     a kernel
//   C CORRELATION START END COPY_KIND BYTES     a copy (0: between devices)
//   S CORRELATION START END 0 BYTES             a set
//   G CORRELATION START END 0 GRAPH             a graph as a whole
#ifndef TBPROF_TESTS_GPU_CUPTI_TEXT_H_
#define TBPROF_TESTS_GPU_CUPTI_TEXT_H_

#include <cupti_activity.h>
#include <stdio.h>

static inline void WriteRecord(FILE* file, const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const CUpti_ActivityKernel5* r = (const CUpti_ActivityKernel5*)record;
      fprintf(file, "K %u %llu %llu %llu %s\n", r->correlationId, (unsigned long long)r->start,
              (unsigned long long)r->end, (unsigned long long)r->graphNodeId, r->name == NULL ? "" : r->name);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const CUpti_ActivityMemcpy* r = (const CUpti_ActivityMemcpy*)record;
      fprintf(file, "C %u %llu %llu %u %llu\n", r->correlationId, (unsigned long long)r->start,
              (unsigned long long)r->end, r->copyKind, (unsigned long long)r->bytes);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const CUpti_ActivityMemcpyPtoP* r = (const CUpti_ActivityMemcpyPtoP*)record;
      fprintf(file, "C %u %llu %llu 0 %llu\n", r->correlationId, (unsigned long long)r->start,
              (unsigned long long)r->end, (unsigned long long)r->bytes);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const CUpti_ActivityMemset* r = (const CUpti_ActivityMemset*)record;
      fprintf(file, "S %u %llu %llu 0 %llu\n", r->correlationId, (unsigned long long)r->start,
              (unsigned long long)r->end, (unsigned long long)r->bytes);
      break;
    }
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: {
      const CUpti_ActivityGraphTrace* r = (const CUpti_ActivityGraphTrace*)record;
      fprintf(file, "G %u %llu %llu 0 %u\n", r->correlationId, (unsigned long long)r->start, (unsigned long long)r->end,
              r->graphId);
      break;
    }
    default:
      break;
  }
}

#endif  // TBPROF_TESTS_GPU_CUPTI_TEXT_H_
