// SPDX-License-Identifier: Apache-2.0
// A program that is linked with constructor_joins.c, whose constructor then runs at the start.
extern int PluginRuns(int launches);

int main(void) { return PluginRuns(0); }
