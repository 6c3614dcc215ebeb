"""Which experiments are there? Data; an experiment's module is imported when it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Experiment:
    """One of the papers' experiments that is no sweep.

    run: "module:function" below this folder, called with a `Setting`, returns an `Outcome`.
    beside: published tables (file names without .csv in reports/published) that stand beside ours.
    reduced, full: what the two sizes are and roughly cost.
    """

    name: str
    title: str
    source: str
    run: str
    reduced: str
    full: str
    beside: tuple[str, ...] = ()


EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
        Experiment(
            name="npt-lookup",
            title="NPT looks up the target of a duplicate row",
            source="Kossen et al. 2021, sec. 4.2, B.1",
            run="npt.lookup:run",
            reduced="four tasks on fresh random tables, width 16, 4 layers",
            full="Protein, NPT-Base, 400,000 steps a task: a GPU",
            beside=("npt_table3",),
        ),
        Experiment(
            name="npt-interventions",
            title="NPT's predictions follow an intervention on a duplicate's target",
            source="Kossen et al. 2021, sec. 4.2, Fig. 3",
            run="npt.interventions:run",
            reduced="the original lookup task of npt-lookup",
            full="Protein, NPT-Base: a GPU",
        ),
        Experiment(
            name="npt-corruption",
            title="How much worse does NPT predict when all other rows are corrupted?",
            source="Kossen et al. 2021, sec. 4.3, Table 2",
            run="npt.corruption:run",
            reduced="Boston, Concrete, Yacht, WDBC; width 16, few steps",
            full="the same with the paper's settings: a GPU",
            beside=("npt_table2",),
        ),
        Experiment(
            name="npt-images",
            title="How well does NPT classify pictures?",
            source="Kossen et al. 2021, sec. 4.1, B.8",
            run="npt.images:run",
            reduced="scikit-learn's digits: patches of 4 x 4 pixels, a narrow ResNet-18; few steps",
            full="MNIST and CIFAR-10 with the paper's settings (500,000 and 1,000,000 steps, 100 "
            "epochs): a GPU and the files",
            beside=("npt_images",),
        ),
        Experiment(
            name="npt-deletion",
            title="NPT keeps similar rows when all that it can do without are deleted",
            source="Kossen et al. 2021, sec. 4.4, B.3.2, Algorithm 2",
            run="npt.deletion:run",
            reduced="Yacht, width 8, 4 layers, 400 steps; 31 asked rows, 10 in the strict run",
            full="Protein, NPT-Base, all test rows in tables of 2,048: a GPU, weeks",
        ),
        Experiment(
            name="npt-maps",
            title="Whom does each head of NPT attend to? Attention maps",
            source="Kossen et al. 2021, sec. 4.4, B.3.1, Figs. 4 and B.2",
            run="npt.maps:run",
            reduced="77 rows of Yacht, width 8, 4 layers, 400 steps",
            full="2,048 rows of Protein, NPT-Base: a GPU, hours",
        ),
        Experiment(
            name="npt-variants",
            title="Ranks of NPT's eight variants on small data",
            source="Kossen et al. 2021, C.1.2, Table 13",
            run="npt.variants:run",
            reduced="Boston, WDBC, Concrete, Yacht; 2 folds, width 8, 2 or 4 layers, 60-240 steps",
            full="the same with 10 folds and the scripted settings: a GPU, days",
            beside=("npt_table13", "npt_table8", "npt_table11"),
        ),
        Experiment(
            name="npt-cost",
            title="Time and memory of NPT beside the baselines'",
            source="Kossen et al. 2021, B.6, Tables 6 and 7",
            run="npt.cost:run",
            reduced="1,000 rows of Protein and of Higgs' shape, 2 configurations a baseline",
            full="Protein and Higgs, the paper's grids and steps: a GPU and weeks of CPUs",
            beside=("npt_table6", "npt_table7"),
        ),
        Experiment(
            name="hopular-cost",
            title="Memory and step time of Hopular beside NPT's",
            source="Schaefl et al. 2022, A.4 and A.5, Tables A.7 and A.8, Figs. A.5 and A.6",
            run="hopular.cost:run",
            reduced="2,000 rows of six tables, e = 16, 1 or 2 blocks; up to 10,000 x 200 numbers",
            full="six tables, e = 32, 4 or 8 blocks; up to 100,000 x 4,000 numbers: a GPU of 80 GB",
            beside=("hopular_tableA.7", "hopular_tableA.8"),
        ),
        Experiment(
            name="rtdl-synthetic",
            title="When is FT-Transformer better than ResNet? Targets between smooth and stepped",
            source="Gorishniy et al. 2021, sec. 5.1, G.1, Fig. 3",
            run="rtdl.synthetic:run",
            reduced="8,000 rows of 12 features, 6 of which matter; small networks, one seed",
            full="500,000 rows of 100 features, the paper's networks, five seeds: a GPU, days",
        ),
        Experiment(
            name="rtdl-biases",
            title="What are the feature biases of FT-Transformer worth?",
            source="Gorishniy et al. 2021, sec. 5.3, Table 17",
            run="rtdl.biases:run",
            reduced="California Housing, small networks, three seeds",
            full="California Housing, Year, Forest Cover, default networks, 15 seeds: a GPU, days",
            beside=("rtdl_table17",),
        ),
        Experiment(
            name="rtdl-time",
            title="Training time of FT-Transformer over ResNet",
            source="Gorishniy et al. 2021, D.1, Table 4",
            run="rtdl.training_time:run",
            reduced="four steps of small networks on ten tables of the paper's shapes",
            full="100 steps of the default networks on its eleven shapes: a GPU",
            beside=("rtdl_table4",),
        ),
        Experiment(
            name="rtdl-budget",
            title="What does an hour of tuning buy? The best trial by validation within a time",
            source="Gorishniy et al. 2021, D.2, Table 5",
            run="rtdl.budget:run",
            reduced="California Housing, 15 to 60 seconds a model, small networks, one tuning seed",
            full="California Housing and Adult, 15 minutes to six hours, five tuning seeds: a GPU",
            beside=("rtdl_table5",),
        ),
        Experiment(
            name="cheatt-smoothing",
            title="Do tokens become alike? Spectral response, cosines, singular values",
            source="Kim et al. 2024, sec. 5.3, Fig. 4",
            run="cheatt.smoothing:run",
            reduced="TabTransformer on the Telco table, the paper's network, 24 epochs, one seed",
            full="the same with 150 epochs and five seeds: hours on a CPU",
        ),
        Experiment(
            name="cheatt-convergence",
            title="How fast does A^k V come to rest?",
            source="Kim et al. 2024, sec. 3.3, Fig. 2",
            run="cheatt.convergence:run",
            reduced="TabTransformer on the Telco table, the paper's network, 24 epochs",
            full="the same with 150 epochs",
        ),
        Experiment(
            name="cheatt-time",
            title="Time with polynomial attention over time without",
            source="Kim et al. 2024, sec. 5.4, Tables 5, 10 and 11",
            run="cheatt.training_time:run",
            reduced="the paper's networks on its ten tables, steps of 128 rows: 15 minutes",
            full="batches as in training, 50 steps, with pre-training: a GPU",
            beside=("cheatt_table5", "cheatt_table10", "cheatt_table11"),
        ),
    )
}
