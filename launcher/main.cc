// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands.h"

int main(int argc, char** argv) { return tbprof::RunTbprof(argc, argv); }
