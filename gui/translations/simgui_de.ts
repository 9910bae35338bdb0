<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de" sourcelanguage="en">
<context>
    <name>QObject</name>
    <message>
        <source>Timeline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tables</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Plots</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Zoom in and out at the cursor</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Move left and right</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Fit the selection, or all</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Previous and next slice</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Follow an arrow back and forth</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Mark the selection</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Pin the track</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Search</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Back to the view before</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Sort by the column</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>click its header</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Brush several rows</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Next and previous point or bar</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Brush it</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery</name>
    <message>
        <source>%1 could not be written: %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1: the picture could not be made</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>--view %1: expected two times, the first before the second: --view 10ms,12ms</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>--size %1: expected a width and a height in pixels: --size 1600x1000</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Compare training strategies on honest timelines.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Scenarios, sweeps and traces.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This text.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The version.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Show the files above each other, the first as the baseline.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The time shown: two times, as 10ms,12ms or in seconds.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Select an op: RANK:OP or RANK:OP@MICROBATCH; the n-th alike: #n.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The view in front: %1.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Write a picture (.png) of the window when all is there, and quit.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Size of the window.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>light, dark or system: as the desktop is.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Do not restore the last session.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The language: %1; else the desktop&apos;s.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>--dock %1: there is no such view: try %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>--theme %1: expected light or dark, or system</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>--language %1: there is no such translation: %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>--compare needs two files or more</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>--select %1: expected RANK:OP, as 0:l17.qkv</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>compute</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>recompute</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>tensor-parallel wait</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>context-parallel wait</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>expert-parallel wait</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>pipeline transfers</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>data-parallel wait</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>optimizer</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>offload</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>bubble</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>other (launches, host)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>rank %1 predicted</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>rank %1 measured</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 waits for its peers</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>slice</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>kind</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>takes</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>begins</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>ends</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1, which stands for %2 alike</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>rank</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>stage</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>queue</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>microbatch</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>cause</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>late was</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>rank %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>op</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>phase</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>layer</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>work</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>rate</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>moves</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>bandwidth</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>forward</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>backward, inputs</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>backward, weights</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>other compute</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>collective</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>point to point</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>copy</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>transfer waits for its peer</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>waiting</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>waits</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>bubble: the pipeline warms up</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>bubble: the pipeline drains</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>waits for a receive</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>waits for a collective</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>waits for the host</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>waits for memory</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>waits for another queue</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>parameters</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>gradients</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>optimizer states</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>activations</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>communication</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>workspace</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>reserved by the runtime</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 (microbatch %2)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>rank %1 (as %2)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>pipeline stage</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>data rank</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>tensor rank</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>context rank</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>expert rank</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>reading</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>planning</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>measuring memory</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>simulating</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>preparing the picture</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>node %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>data %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>tensor</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>T</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>context</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>C</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>data</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>D</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>experts %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>E %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&lt;b&gt;rank %1&lt;/b&gt;: node %2, device %3&lt;br&gt;stage %4 of %5, %6</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>, embedding</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>, loss</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>weights</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>experts&apos; weights</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>data: part %1 of %2, %3 microbatches of %4 sequences</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>, part %1 of %2 of each sequence</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&lt;br&gt;experts %1 to %2 of %3 in each layer</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::AliveModel</name>
    <message>
        <source>Alive at the peak</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Together</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Count</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Source of the figure</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::AreaModel</name>
    <message>
        <source>Kind</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Slices</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Time</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Share</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Exposed</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Critical path</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Sum</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Union of the slices&apos; intervals in a rank, mean over ranks</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Of the area&apos;s length</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The part of the time in which the rank computed nothing, mean over ranks</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Time on the critical path, all ranks</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Durations added up: no wall time where slices overlap</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::BarsPlot</name>
    <message>
        <source>Breakdown bars</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nothing simulated yet: open or edit a scenario</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::BreakdownView</name>
    <message>
        <source>stage %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>rank %1 and %n like it</source>
        <translation type="unfinished">
            <numerusform></numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>rank %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A bar a strategy</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A bar a stage of the current run</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A bar a rank of the current run</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What a bar is</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::CategoryLegend</name>
    <message>
        <source>What the colours mean</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::ChangesModel</name>
    <message>
        <source>left out</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Field</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Baseline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Here</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::ClusterPlot</name>
    <message>
        <source>Cluster with the use of its links; the table beside it tells the same</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>of capacity</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>%n node(s) shown</source>
        <translation type="unfinished">
            <numerusform></numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>; %n more not drawn</source>
        <translation type="unfinished">
            <numerusform></numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>The current run does not say what its cluster is</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>nothing goes here, or the trace shows a link like it</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1, as a link that is like it</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 to %2: %3</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::CommandPalette</name>
    <message>
        <source>Commands</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Type a command</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Command</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Commands that match</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::CompareView</name>
    <message>
        <source>Compare</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Above each other</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Predicted over measured</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::DifferenceModel</name>
    <message>
        <source>Union of the slices&apos; intervals in a rank, mean over ranks</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Kind</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Change: %1</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::ErrorsModel</name>
    <message>
        <source>Op</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Slices</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Predicted</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Measured</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Error</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Mean |error|</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Predicted over measured time, both added up, less one</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Mean over slices of how far each is off</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::ExecutionView</name>
    <message>
        <source>Run for real</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>simexec</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 could not be started: %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>path of simexec</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Program</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Executor</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Steps</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>further arguments, as --text FILE</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Further arguments</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Output of simexec</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>steps</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Stop</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>running %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>simexec is not here: build it, or name its path</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a run with a scenario first</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The plan of the current scenario, on this machine; the trace of its last step is laid over the prediction</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>the scenario could not be written to %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>stopped</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>it crashed</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>exit code %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1: exit code %2: %3</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1, measured</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::FactsModel</name>
    <message>
        <source>What</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Value</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::FieldsModel</name>
    <message>
        <source>inline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>

Default: %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1: %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Field</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Value</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Where it is from, or what is wrong</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 = %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 left out</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::HeatPlot</name>
    <message>
        <source>Map of the sweep; the table beside it tells the same</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>none</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Open a sweep: a scenario with lists under &quot;sweep&quot;</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>nothing fits</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::KeySheet</name>
    <message>
        <source>Keys</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Keys of every command</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::Legend</name>
    <message>
        <source>Legend</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::LinksModel</name>
    <message>
        <source>Link</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Alike</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>In a step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Capacity</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Mean use</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Busiest bin</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Full, of the step</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::MainWindow</name>
    <message>
        <source>Open &amp;recent</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;File</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;New scenario</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A small scenario to change</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>new scenario</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Open…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Scenarios, sweeps or traces</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Open</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Scenarios, sweeps and traces (*.json *.trace *.ort);;All files (*)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Save the scenario</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>To the file it is from</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Save the scenario &amp;as…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>To another file</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Export this view…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>As PNG, SVG, PDF or CSV</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Export the &amp;trace…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>For ui.perfetto.dev, or as our own</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Quit</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The session comes back at the next start</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Edit</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Undo</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Takes back the last change of the scenario</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Redo</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Makes it again</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Run</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Copy as a new strategy</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The current scenario again, to change and compare</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1, copy</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Pin as baseline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Others are compared with it; again: none is</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Remove from the table</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The runs chosen in the table; their files stay</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Filter the table</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>By name or figures</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Simulate as you &amp;type</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A moment after each change</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Run or stop the s&amp;weep</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The one that is open</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Simulate now</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The scenario as it stands</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Cance&amp;l</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Stops all that is being simulated or loaded</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;View</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Brings the view to the front</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Full screen</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>And back</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Reset layout</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Every view back to its first place</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Copy a link to &amp;here</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The command line that shows these files, this time and selection</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Copied: %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Light</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Dark on light</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Dark</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Light on dark</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>As the des&amp;ktop</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Light or dark as the desktop is, also when it changes</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Light or dark</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The other one than is shown</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Help</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Commands…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Find any command by a few letters</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Keys</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Every key on one page</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Examples</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Scenarios to begin with</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>command line</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>--select %1: the trace shown has no such op on such a rank (a folded trace shows one rank of those alike)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nothing yet</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The current run has no scenario to save</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Save the scenario</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Scenarios (*.json)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>save</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 saved</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Pictures (*.png *.svg *.pdf)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>;;Tables (*.csv)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Export %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>export</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 written</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>the current run has no trace</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Export the trace</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>For ui.perfetto.dev (*.json);;Orrery traces (*.trace)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Orrery</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Strategies</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Scenario</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Timeline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Compare</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Memory</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Breakdown</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Frontier</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Placement</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Topology</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Sweep</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Execution</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Problems</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Work in progress</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>%n runs</source>
        <translation type="unfinished">
            <numerusform></numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>%1: %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>failed</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>session</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 is no longer there</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::MarkersModel</name>
    <message>
        <source>Time</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Note</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::MemoryChart</name>
    <message>
        <source>Memory over time</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Peak %1 of %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>capacity %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>peak %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>runs out here</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::MemoryKindsModel</name>
    <message>
        <source>all</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Kind</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>At the cursor</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>At the peak</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::MemoryView</name>
    <message>
        <source>Memory over time</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Rank whose memory is shown</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Memory &amp;of</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Go to the peak</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Memory by kind</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What is alive at the peak</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>stage %1, rank %2 (as %3)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>stage %1, rank %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No run is open.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 says nothing of memory over time.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Peak %1 at %2.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 are free then.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It would run out at %1, %2 too much in the end.</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::Minimap</name>
    <message>
        <source>Overview of the whole step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Drag the frame to move, its edges to resize, beside it to choose another range.</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::OffendersModel</name>
    <message>
        <source>Slice</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Rank</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Microbatch</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Predicted</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Measured</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Difference</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::ParetoPlot</name>
    <message>
        <source>Frontier of strategies</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No run has both figures yet</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1: %2, %3</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&lt;br&gt;does not fit</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::ParetoView</name>
    <message>
        <source>Peak memory</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Devices</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Cost of a step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Step time</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Time of a token on all devices</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Bubble</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Figure to the right</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Figure upwards</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>against</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::PlacementPlot</name>
    <message>
        <source>Devices and what they hold</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The current run has no plan: simulate a scenario</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::PlacementView</name>
    <message>
        <source>By nodes</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>By axes: stages down, shards across, a box a replica</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Arrangement</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Coloured by stage (layers)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>by tensor shard</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>by context shard</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>by data</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>by experts</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What the colour tells</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 devices: tensor %2 x context %3 x pipeline %4 x data %5</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>, experts over %1</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::PredictedMeasured</name>
    <message>
        <source>Prediction over measurement</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Predicted run</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Measured run</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Predicted</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>measured</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Open the trace of a real run (simexec run SCENARIO --trace FILE) and the scenario that predicts it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Error by kind of op</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Slices that are furthest off</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Comparing ..</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Step %1 predicted, %2 measured</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>: %1%2 %.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Without their like: %L1 predicted slices, %L2 measured.</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::ProblemsModel</name>
    <message>
        <source>Source</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Where</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Problem</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::ProblemsView</name>
    <message>
        <source>Problems</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::RunStore</name>
    <message>
        <source>%1: there is no such file</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1: neither a trace nor a scenario (it is larger than any scenario)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1: cannot be read</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::ScenarioDocument</name>
    <message>
        <source>typing</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 could not be written: %2</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::ScenarioEditor</name>
    <message>
        <source>Fields of the scenario</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What is otherwise than in the baseline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Form</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Text</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Against the baseline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What is wrong with the scenario</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Against the baseline (%1)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Open a scenario, or make a new one (Ctrl+N)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The current run has no scenario: it is a trace alone</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>⚠ %n problem(s): the figures shown are of the text before</source>
        <translation type="unfinished">
            <numerusform></numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>Note: %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>✓ correct: %1 devices</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Leave out: the default holds (Delete)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Show in the text</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::ScenarioText</name>
    <message>
        <source>Text of the scenario</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::SideBySide</name>
    <message>
        <source>Runs above each other</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>by time</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>by step: stretched to one length</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Align runs</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Align</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What differs</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Comparing needs two runs with a timeline: choose them in the table of strategies.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&lt;b&gt;%1&lt;/b&gt;: step %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>, %1%2 %</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Timeline of %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>In the area, per rank:</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>In the range shown, per rank (drag for an area):</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::StrategiesModel</name>
    <message>
        <source>run %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source> (working)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source> (failed)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>baseline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>✓ fits</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>✗ too big</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>From the sweep: Enter or a double click simulates it in full</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Run</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Double-click to rename</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Steady time of one optimizer step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Against baseline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Step time against the pinned run&apos;s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What a step goes to</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Mean over all devices; all rows on one scale</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tokens/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Of the whole cluster</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>MFU</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Model FLOPs over the devices&apos; dense peak, no recompute</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Bubble</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Share of the step devices are idle for the pipeline&apos;s sake</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tensor</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Exposed tensor-parallel communication, share of the step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Context</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Exposed context-parallel communication, share of the step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Expert</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Exposed expert-parallel communication, share of the step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Pipeline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Exposed transfers between stages, share of the step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Data</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Exposed data-parallel communication, share of the step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Peak memory</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Of the fullest stage, 1 GB = 1e9 bytes</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Headroom</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Capacity less the peak; negative: does not fit</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Fits</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>In device memory</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Cost of a step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Where the cluster says what its devices cost</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Devices</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::StrategiesView</name>
    <message>
        <source>Filter: words of the name, fits, mfu&gt;40, step&lt;2, memory&lt;70, bubble&lt;10, devices&lt;=64</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Filter of the strategies</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Strategies</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Simulate in full</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Unpin the baseline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Pin as baseline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Edit its scenario</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Remove from the table</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::SweepModel</name>
    <message>
        <source>Fits</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tokens/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>MFU</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Bubble</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Peak memory</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Why not</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::SweepView</name>
    <message>
        <source>No sweep is open</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Run</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Add to strategies</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Points of the sweep</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Axis to the right</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Axis downwards</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Figure</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>step time</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>tokens/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>MFU</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>bubble</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>peak memory</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Points computed</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Simulates the chosen points in full and adds them to the table of strategies (Enter)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Best</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>over</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>and</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>%n combinations</source>
        <translation type="unfinished">
            <numerusform></numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 of %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>, about %1 left</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 min</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Stopped: %1 of %2 computed; Run goes on from here</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 of %2 combinations fit</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 of %2 points computed</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::Timeline</name>
    <message>
        <source>Timeline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Ranks and queues over time. W and S zoom, A and D pan, the arrow keys choose a row, comma and full stop a slice.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>zoom in, zoom out</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>earlier, later</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Ctrl+wheel</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>zoom at the pointer</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>the whole step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>fit the selection</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>the view before</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>the view after</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Up / Down</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>choose a row</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Left / Right, Enter</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>fold, unfold the row</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Shift+Left / Shift+Right</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>fold, unfold the queues of all ranks</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>move the row</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>pin the row</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>previous, next slice</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>along the arrows, back and on</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>highlight the selection&apos;s microbatch</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>critical path</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>search</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>marker at the cursor</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>remove the marker nearby</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>clear</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 %2 %</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>idle</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 shown</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::TimelineView</name>
    <message>
        <source>stage</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>data rank, stage</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>stage, data rank</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>tensor rank</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>context rank</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>expert rank</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>nothing</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Timeline of the current run</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Group ranks by</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Filter rows</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Search slices (/): qkv mb:3</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Search slices</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Critical path</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Mark the chain of slices the step&apos;s length rests on (C)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Group by</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Details of the selected slice</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Slice</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What the selected area holds</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Drag over rows to choose an area.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Area</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Markers</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No run is open. Open or drop a scenario or a trace.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Simulating %1 ..</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 has no timeline: it could not be simulated. See Problems.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 has no timeline.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Counting ..</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 in %L2 slices; times are unions of intervals, means over ranks</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Looking for the critical path ..</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nothing like “%1”</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>From the start again</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>note %1</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::TopologyView</name>
    <message>
        <source>Links</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Time: the leftmost place is all of the time shown</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Time</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 to %2 of %3</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No link carries anything</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>&lt;b&gt;%1&lt;/b&gt; limits: it is over nine tenths full during %2 of the step (%n link(s) alike)</source>
        <translation type="unfinished">
            <numerusform></numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>No link is full for long: the busiest, &lt;b&gt;%1&lt;/b&gt;, reaches %2 of its capacity</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>orrery::WelcomePage</name>
    <message>
        <source>How will this model train on that cluster?</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Open a scenario, a sweep or a trace (or drop one here), or begin with an example. Change a field and the step is simulated again; pin one run as the baseline and compare others with it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Example scenarios</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>  (a sweep)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>E&amp;xamples (double-click, or Enter)</source>
        <translation type="unfinished"></translation>
    </message>
</context>
</TS>
